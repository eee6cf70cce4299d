"""Looks the pinned packages up in a database of known vulnerabilities, by pip-audit, where that can be reached.

Exit status 1 if a pinned version has a known vulnerability. One package is looked up first. Where the database does not
answer for that one, no other is asked for: a registry's mirror that knows no vulnerabilities is to get one request, not
one for each pin. It then says so and exits with 0, so that an air-gapped machine can still build and test.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PIP_AUDIT = (sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner=off")
PROBE = "pip==26.3"
"""A pin that every database of Python packages knows."""
SECONDS_FOR_ONE = 60
SECONDS_FOR_ALL = 900


def main(command: Sequence[str] = PIP_AUDIT, constraints: Path = REPOSITORY / "constraints.txt") -> int:
    """Audit the pins; returns the exit status."""
    pins = constraints.read_text(encoding="utf-8").split()
    answer, why = audited(command, [PROBE], SECONDS_FOR_ONE)
    if answer is not None and any("skip_reason" in one for one in answer):
        answer, why = None, f"the database does not know {PROBE}"
    if answer is not None:
        answer, why = audited(command, pins, SECONDS_FOR_ALL)
    if answer is None:
        print(f"audit: NOT DONE for the {len(pins)} packages of {constraints.name}: {why}.")
        print(
            "audit: look them up from a machine that reaches the database: `make audit` there, or give it `make sbom`."
        )
        return 0
    found = [(one, fault) for one in answer for fault in one.get("vulns", [])]
    for one, fault in found:
        fixed = ", ".join(fault.get("fix_versions") or ()) or "no version yet"
        print(f"audit: {one['name']} {one['version']}: {fault['id']}, fixed in {fixed}")
    skipped = [one for one in answer if "skip_reason" in one]
    for one in skipped:
        print(f"audit: {one['name']} was not looked up: {one['skip_reason']}")
    print(f"audit: {len(answer) - len(skipped)} packages looked up, {len(found)} known vulnerabilities")
    return 1 if found else 0


def audited(command: Sequence[str], pins: Sequence[str], seconds: float) -> tuple[list[dict[str, Any]] | None, str]:
    """Return what the database says of each package, or None and why it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pins.txt")
        file.write_text("\n".join(pins) + "\n", encoding="utf-8")
        try:
            done = subprocess.run(
                [*command, "--timeout=10", "--format=json", f"--requirement={file}"],
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"no answer in {seconds:g} s"
        except OSError as error:
            return None, f"{command[0]}: {error.strerror}"
    try:
        answer: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None, (done.stderr.strip().splitlines() or [f"pip-audit ended with {done.returncode}"])[-1]
    return answer, ""


if __name__ == "__main__":
    sys.exit(main())
