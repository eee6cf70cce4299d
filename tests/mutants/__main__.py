"""Which small errors in a module no test notices.

    python -m tests.mutants tasks/deduplicate/clusters.py --tests tests/tasks/deduplicate --count 20
    python -m tests.mutants --all --count 10 --folder build/mutants --minutes 8 --output build/mutants.md
    make mutants

A mutant is the module with one small change. It is killed if its tests fail, out of time if they take too long; it
survives if they pass. Work happens in a copy of the checkout. `--all` takes the modules and tests of
tests/mutants/modules.toml, a sample of each, and the errors of tests/mutants/known.toml: made by hand, and once noticed
by no test. With `--folder` a run that was cut off resumes: what was judged is judged again only when the module or its
tests have changed. A survivor is a missing test, or a change that means nothing: who reads the list decides, and writes
the latter to tests/mutants/equivalent.toml.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.changes import Change, changes_of, sample
from tests.mutants.judging import Results, Verdict, hash_of, hash_of_tests, judge
from tests.mutants.page import Known, page
from tests.support.processes.checkout_copy import copy_of_checkout

HERE = Path(__file__).parent


def known_changes(folder: Path) -> list[tuple[Known, Change, tuple[str, ...]]]:
    """Return the errors of known.toml, each with its change and its tests.

    Raises:
        SystemExit: the code of an error is not in its module, or more than once.
    """
    listed = read("modules.toml")
    found = []
    for error in read("known.toml")["error"]:
        known = Known(error["name"], error["module"])
        source = (folder / known.module).read_text(encoding="utf-8")
        if source.count(error["old"]) != 1:
            raise SystemExit(f"error: known.toml, {known.name}: {error['old']!r} must be in {known.module} once")
        line = source[: source.index(error["old"])].count("\n") + 1
        change = Change(line, known.name, source.replace(error["old"], error["new"]))
        found.append((known, change, tuple(error.get("tests") or listed[known.module])))
    return found


def read(name: str) -> dict[str, Any]:
    """Return a TOML file of this folder."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


class Run:
    """A run over modules: what is known already is kept, the rest is judged while there is time."""

    def __init__(self, folder: Path, results: Results, until: float, kills_stay: bool) -> None:
        self._folder, self._results, self._until, self._kills_stay = folder, results, until, kills_stay
        self.unfinished: list[str] = []
        """Modules some of whose mutants are not judged."""

    def verdicts(self, module: str, tests: Sequence[str], changes: Sequence[Change]) -> list[Verdict]:
        """Return the verdicts on changes of a module, in their order."""
        digest = hash_of_tests(self._folder, tests)
        found = {c: self._results.find(module, hash_of(c.source), digest, self._kills_stay) for c in changes}
        missing = [change for change, verdict in found.items() if verdict is None]
        if missing and time.monotonic() < self._until:
            try:
                for change, verdict in zip(
                    missing, judging := judge(self._folder, module, tests, missing), strict=False
                ):
                    self._results.add(verdict)
                    found[change] = verdict
                    print(f"{module}:{change.line} {change.what}: {verdict.outcome}, {verdict.cpu} s", flush=True)
                    if time.monotonic() > self._until:
                        judging.close()
                        break
            except ValueError as error:
                print(f"error: {error}", flush=True)
        if None in found.values():
            self.unfinished.append(module)
        return [verdict for verdict in found.values() if verdict is not None]


def chosen(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> Mapping[str, Sequence[str]]:
    """Return the tests of each module that is asked for."""
    listed: dict[str, list[str]] = read("modules.toml")
    if arguments.all:
        return listed
    if not arguments.module:
        parser.error("name a module, or say --all")
    for module in arguments.module:
        if not arguments.tests and module not in listed:
            parser.error(f"{module} is not in modules.toml: name its tests with --tests")
    return {module: arguments.tests or listed[module] for module in arguments.module}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", nargs="*", help="files to change")
    parser.add_argument("--tests", nargs="+", default=[], help="tests that should notice (files, folders or names)")
    parser.add_argument("--all", action="store_true", help="the modules of modules.toml and the errors of known.toml")
    parser.add_argument("--count", type=int, default=20, help="mutants of each module (20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keeps the copy and the verdicts; absent: a temporary folder")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so many minutes")
    parser.add_argument("--kills-stay", action="store_true", help="of changed tests judge only former survivors again")
    parser.add_argument("--output", type=Path, help="page to write")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the tests of a mutant end with this process
    modules = chosen(arguments, parser)
    with tempfile.TemporaryDirectory(prefix="yiwen-mutants-") as temporary:
        place = (arguments.folder or Path(temporary)).absolute()
        (place / "copy").mkdir(parents=True, exist_ok=True)
        folder = copy_of_checkout(place / "copy")
        run = Run(folder, Results(place / "verdicts.jsonl"), until, arguments.kills_stay)
        verdicts: list[Verdict] = []
        for module, tests in modules.items():
            changes = changes_of((folder / module).read_text(encoding="utf-8"))
            verdicts += run.verdicts(module, tests, sample(changes, arguments.count, arguments.seed))
        known: dict[Known, Verdict | None] = {}
        if arguments.all:
            errors = known_changes(folder)
            known = dict.fromkeys(error for error, _, _ in errors)
            for module, tests in dict.fromkeys((error.module, tests) for error, _, tests in errors):
                own = {
                    change.what: error for error, change, given in errors if (error.module, given) == (module, tests)
                }
                changes = [change for _, change, _ in errors if change.what in own]
                known |= {own[verdict.what]: verdict for verdict in run.verdicts(module, tests, changes)}
    text = page(verdicts, known, read("equivalent.toml")["change"], arguments.seed, run.unfinished)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    print(text[text.index("\n") :].strip().partition("\n\n")[0])


if __name__ == "__main__":
    main()
