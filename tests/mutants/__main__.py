"""Which small errors in a module no test notices.

    python -m tests.mutants tasks/deduplicate/clusters.py --tests tests/tasks/deduplicate --count 20
    python -m tests.mutants --all --count 10 --output benchmarks/results/mutants.md
    make mutants

A mutant is the module with one small change. It is killed if its tests fail (or hang); it survives if they pass. Work
happens in a copy of the checkout. `--all` takes the modules and tests of tests/mutants/modules.toml, a sample of each.
A survivor is a missing test, or a change that means nothing: who reads the list decides.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.mutants.changes import Change, changes_of, sample
from tests.support.processes.checkout_copy import copy_of_checkout

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = Path(__file__).with_name("modules.toml")
LOG = "mutant.log"
"""What pytest prints about the mutant at hand, in the copy."""
PATIENCE = 4
"""A mutant is given so many times the seconds of the unchanged tests, and 20 s more."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    module: str
    change: Change
    survived: bool


def passes(folder: Path, tests: Sequence[str], seconds: float | None) -> bool:
    """Whether some tests pass within a time, in a process of their own; none of it outlives the call."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=ci", *tests]
    # Python takes two changes of one second for the same file where it keeps bytecode.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    with open(folder / LOG, "wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def judge(folder: Path, module: str, tests: Sequence[str], count: int, seed: int) -> list[Verdict]:
    """Try some mutants of a module, and put the module back."""
    file = folder / module
    source = file.read_text(encoding="utf-8")
    started = time.monotonic()
    if not passes(folder, tests, None):
        said = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
        raise SystemExit("\n".join([*said, f"error: {' '.join(tests)} fails before anything is changed"]))
    seconds = PATIENCE * (time.monotonic() - started) + 20
    verdicts = []
    for change in sample(changes_of(source), count, seed):
        file.write_text(change.source, encoding="utf-8")
        verdicts.append(Verdict(module, change, passes(folder, tests, seconds)))
        state = "SURVIVES" if verdicts[-1].survived else "killed"
        print(f"{module}:{change.line} {change.what}: {state}", flush=True)
    file.write_text(source, encoding="utf-8")
    return verdicts


def page(verdicts: Sequence[Verdict], seed: int) -> str:
    """Return the result page: shares by module, and every survivor."""
    killed = sum(not one.survived for one in verdicts)
    lines = [
        f"# Mutants, {date.today()}",
        "",
        f"{len(verdicts)} mutants, drawn with seed {seed}; {killed} killed ({killed / max(len(verdicts), 1):.0%}). "
        "Some survivors mean nothing (a border that no value meets, a constant that only costs time).",
        "",
        "| module | mutants | killed |",
        "| --- | --- | --- |",
    ]
    for module in dict.fromkeys(one.module for one in verdicts):
        own = [one for one in verdicts if one.module == module]
        lines.append(f"| {module} | {len(own)} | {sum(not one.survived for one in own)} |")
    lines += ["", "## Survivors", ""]
    lines += [f"- {one.module}:{one.change.line} {one.change.what}" for one in verdicts if one.survived]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", nargs="*", help="files to change")
    parser.add_argument("--tests", nargs="+", default=[], help="tests that should notice (files, folders or names)")
    parser.add_argument("--all", action="store_true", help="the modules and tests of tests/mutants/modules.toml")
    parser.add_argument("--count", type=int, default=20, help="mutants of each module (20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="page to write")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the tests of a mutant end with this process
    listed: dict[str, list[str]] = tomllib.loads(MODULES.read_text(encoding="utf-8"))
    chosen = (
        listed if arguments.all else {module: arguments.tests or listed.get(module, []) for module in arguments.module}
    )
    if not chosen:
        parser.error("name a module, or say --all")
    for module, tests in chosen.items():
        if not tests:
            parser.error(f"{module} is not in {MODULES.name}: name its tests with --tests")
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="yiwen-mutants-") as temporary:
        folder = copy_of_checkout(Path(temporary))
        for module, tests in chosen.items():
            verdicts += judge(folder, module, tests, arguments.count, arguments.seed)
    if arguments.output:
        arguments.output.write_text(page(verdicts, arguments.seed), encoding="utf-8")
    print(f"{sum(not one.survived for one in verdicts)} of {len(verdicts)} killed")


if __name__ == "__main__":
    main()
