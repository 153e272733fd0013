"""Entry: makes the folder importable as a package without importing autoprompt, then supervises."""

import sys
from importlib import import_module
from types import ModuleType

package = ModuleType("sandbox_child")
package.__path__ = [sys.path[0]]
sys.modules["sandbox_child"] = package
import_module("sandbox_child.supervise").main(sys.argv[1:])
