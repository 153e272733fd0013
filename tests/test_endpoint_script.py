"""The simulated endpoint of the benchmarks, as a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "endpoint.py"


def test_without_the_dev_extra_it_says_in_one_line_what_to_install() -> None:
    code = f"import runpy, sys; sys.modules['aiohttp'] = None; runpy.run_path({str(SCRIPT)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == ("benchmarks/endpoint.py needs aiohttp: pip install -e '.[dev]' in the checkout\n")
