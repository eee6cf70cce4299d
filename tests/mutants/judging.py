"""Judges mutants: runs the tests of a module on each, and remembers what became of it.

The tests of one module run in processes forked from one interpreter (pytest_server.py): to import torch, polars and
pytest takes longer than most tests that kill a mutant. Limits are of processor time, so that a busy machine kills
nothing; only who waits for ever is ended by the clock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutants.changes import Change

KILLED, LATE, SURVIVED = "killed", "out of time", "survived"
"""What becomes of a mutant: a test failed, its tests took too long, or they passed."""

LEAST_SECONDS = 10
"""Seconds of processor time that a mutant has besides twice those of the unchanged module."""

OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=0", "--hypothesis-profile=mutants")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    module: str
    line: int
    what: str
    code: str
    """The line before the change."""
    mutant: str
    """Hash of the changed source."""
    tests: str
    """Hash of the names and contents of the tests."""
    outcome: str
    cpu: float
    """Seconds of processor time until it was known."""
    test: str = ""
    """The test that failed."""


class Results:
    """Verdicts in a file, one JSON object a line: what was judged before a run was cut off is not judged again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[tuple[str, str], Verdict] = {}
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError, TypeError):  # the last line of a run that was killed
                    self._keep(Verdict(**json.loads(line)))

    def find(self, module: str, mutant: str, tests: str, kills_stay: bool = False) -> Verdict | None:
        """Return the verdict on a changed source by these tests; with `kills_stay` a kill by any tests will do."""
        found = self._known.get((module, mutant))
        if found is None or (found.tests != tests and not (kills_stay and found.outcome != SURVIVED)):
            return None
        return found

    def add(self, verdict: Verdict) -> None:
        """Keep a verdict."""
        self._keep(verdict)
        with open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(verdict), ensure_ascii=False) + "\n")

    def _keep(self, verdict: Verdict) -> None:
        self._known[verdict.module, verdict.mutant] = verdict


def hash_of(source: str) -> str:
    """Return a hash of a source text."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def hash_of_tests(folder: Path, tests: Sequence[str]) -> str:
    """Return a hash of the names and contents of tests: files, folders and names of tests in files."""
    digest = hashlib.sha256("\n".join(tests).encode())
    for name in tests:
        path = folder / name.partition("::")[0]
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class PytestServer:
    """The interpreter of pytest_server.py, with a folder as its place; ends with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.log = folder / "mutant.log"
        """What pytest printed last."""
        program = Path(__file__).with_name("pytest_server.py")
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(program)],
            cwd=folder,
            env={
                # Options meant for the tests of the repository may be unknown in the folder at hand.
                **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
                "PYTHONPATH": str(folder),
                "PYTHONDONTWRITEBYTECODE": "",
                "POLARS_MAX_THREADS": "1",
                **one,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> PytestServer:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.communicate()

    def run(self, tests: Sequence[str], cpu: float | None = None, wall: float | None = None) -> dict[str, Any]:
        """Run tests; see `pytest_server.run`."""
        return self._ask({"arguments": [*OPTIONS, *tests], "log": str(self.log), "cpu": cpu, "wall": wall})

    def prepare(self) -> None:
        """Import what the last run imported from elsewhere, for all runs to come."""
        self._ask({"import": json.loads(Path(f"{self.log}.imported").read_text())})

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def judge(folder: Path, module: str, tests: Sequence[str], changes: Iterable[Change]) -> Iterator[Verdict]:
    """Yield the verdicts on some changes of a module in a folder that may be written to, and put the module back.

    Raises:
        ValueError: the tests fail before anything is changed.
    """
    file = folder / module
    original = file.read_text(encoding="utf-8")
    lines, digest = original.splitlines(), hash_of_tests(folder, tests)
    with PytestServer(folder) as server:
        unchanged = [server.run(tests)]
        if not unchanged[0]["status"]:
            server.prepare()
            unchanged.append(server.run(tests))
        if any(one["status"] for one in unchanged):
            said = server.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
            raise ValueError("\n".join([*said, f"{' '.join(tests)} fails before anything is changed"]))
        # The first run compiles, as the run of a mutant may have to.
        cpu = 2 * max(one["cpu"] for one in unchanged) + LEAST_SECONDS
        try:
            for change in changes:
                _put(file, change.source)
                ran = server.run(tests, cpu, 10 * cpu + 60)
                outcome = LATE if ran["late"] else KILLED if ran["status"] else SURVIVED
                code = lines[change.line - 1].strip() if change.line else ""
                mutant = hash_of(change.source)
                test = failed_test(server.log) if outcome == KILLED else ""
                yield Verdict(
                    module, change.line, change.what, code, mutant, digest, outcome, round(ran["cpu"], 2), test
                )
        finally:
            _put(file, original)


def failed_test(log: Path) -> str:
    """Return the first test, or the file that could not be imported, of pytest's summary; parameters are left out."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        # such as "FAILED tests/infra/test_memo.py::test_key[a b] - assert 1 == 2"
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].partition(" - ")[0].partition("[")[0].strip()
    return ""


def _put(file: Path, source: str) -> None:
    """Write a module, and forget its bytecode and machine code: two changes of one second have the same age."""
    file.write_text(source, encoding="utf-8")
    for kept in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        kept.unlink()
