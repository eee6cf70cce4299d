"""Skipped tests at the end of a run, by reason; with `--may-skip`, a run fails if a test is skipped for another reason.

A plugin of pytest: what CI installs and then cannot use would otherwise be noticed by nobody.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--may-skip`."""
    parser.addoption(
        "--may-skip",
        action="append",
        default=[],
        metavar="FILE",
        type=Path,
        help="fail if a test is skipped for a reason that no regular expression of these files matches; one per line",
    )


def patterns(files: Iterable[Path]) -> list[re.Pattern[str]]:
    """Return the regular expressions of files, one per line."""
    lines = (line.partition("#")[0].strip() for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [re.compile(line) for line in lines if line]


def by_reason(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> dict[str, list[str]]:
    """Return the tests that were skipped for each reason."""
    found: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found[" ".join(reason.removeprefix("Skipped: ").split())].append(report.nodeid)
    return dict(sorted(found.items()))


def unexpected(skipped: Mapping[str, list[str]], may_skip: Iterable[re.Pattern[str]]) -> list[str]:
    """Return the reasons that no pattern matches."""
    allowed = list(may_skip)
    return [reason for reason in skipped if not any(pattern.search(reason) for pattern in allowed)]


def _skipped(config: pytest.Config) -> dict[str, list[str]]:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return {} if terminal is None else by_reason(terminal.stats.get("skipped", []))


def _unexpected(config: pytest.Config) -> list[str]:
    files = config.getoption("may_skip")
    return unexpected(_skipped(config), patterns(files)) if files else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run if a test was skipped that should run."""
    is_worker = hasattr(session.config, "workerinput")
    if not is_worker and exitstatus == pytest.ExitCode.OK and _unexpected(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List skipped tests by reason."""
    skipped, refused = _skipped(config), _unexpected(config)
    if not skipped:
        return
    terminalreporter.section("skipped, by reason")
    for reason, tests in skipped.items():
        files = sorted({test.partition("::")[0] for test in tests})
        mark = "  (should run here)" if reason in refused else ""
        terminalreporter.line(f"{len(tests):4d}  {reason}{mark}: {', '.join(files)}")
    if refused:
        terminalreporter.line(f"{len(refused)} of these reasons are in no file of --may-skip: the run has failed.")
