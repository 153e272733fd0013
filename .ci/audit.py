"""Report known vulnerabilities of the installed packages. A report, not a check: the exit code is always 0.

Advisories come from PyPI, through pip-audit. Without a way there, or at a mirror that has none, it says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

TIMEOUT_S = 120
COMMAND = (
    "-m",
    "pip_audit",
    "--format",
    "json",
    "--progress-spinner",
    "off",
    "--timeout",
    "10",
    "--skip-editable",
)


def report(packages: list[dict[str, Any]]) -> list[str]:
    """Return the lines to show for the `dependencies` of pip-audit's JSON."""
    lines = []
    for package in packages:
        for found in package.get("vulns", ()):
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            lines.append(f"  {package['name']} {package['version']}: {found['id']}, fixed in {fixed}")
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    known = len(packages) - len(unknown)
    if lines:
        lines.insert(0, f"audit: {len(lines)} known vulnerabilities in {known} packages")
    elif known:
        lines.append(f"audit: no known vulnerability in {known} packages")
    if unknown:
        lines.append(
            f"audit: {len(unknown)} of {len(packages)} packages were not audited: no advisories to be had"
        )
    return lines


def audit() -> list[str]:
    """Return the lines of the report, or why there is none."""
    try:
        done = subprocess.run(
            [sys.executable, *COMMAND], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        return report(json.loads(done.stdout)["dependencies"])
    except subprocess.TimeoutExpired:
        return [f"audit: not done: the advisory service did not answer in {TIMEOUT_S} s"]
    except ValueError:
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [f"audit: not done: {why[:200]}"]


if __name__ == "__main__":
    sys.stdout.write("\n".join(audit()) + "\n")
