"""Mutants of a small module: the three outcomes are distinguished, and known verdicts are not asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.changes import Change
from tests.mutants.judging import Results, Verdict, hash_of, judge
from tests.mutants.page import Known, page

MODULE = """\
def total(values):
    whole = 0
    while values:
        whole += values.pop()
    return whole
"""
TESTS = """\
from small import total

def test_total():
    assert total([1, 2]) == 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.py").write_text(MODULE)
    (tmp_path / "test_small.py").write_text(TESTS)
    return tmp_path


def change(line: int, what: str, old: str, new: str) -> Change:
    return Change(line, what, MODULE.replace(old, new))


def test_fates_are_told_apart_and_the_module_is_put_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.judging.OPTIONS", ("-x", "-q", "-p", "no:cacheprovider"))
    monkeypatch.setattr("tests.mutants.judging.LEAST_SECONDS", 1)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--unknown-where-mutants-are-judged")
    changes = [
        change(2, "starts at 1", "whole = 0", "whole = 1"),
        change(4, "takes nothing away", "values.pop()", "values[0]"),
        change(4, "takes from the front", "values.pop()", "values.pop(0)"),
        change(5, "no syntax", "return whole", "return ("),
    ]
    verdicts = list(judge(folder, "small.py", ["test_small.py"], changes))
    assert [one.outcome for one in verdicts] == ["killed", "out of time", "survived", "killed"]
    assert verdicts[2].code == "whole += values.pop()" and verdicts[2].mutant == hash_of(changes[2].source)
    assert (folder / "small.py").read_text() == MODULE

    text = page(verdicts, {Known("once", "small.py"): verdicts[0]}, [], 3, [])
    assert "| small.py | 4 | 2 | 1 | 0 | 1 |" in text and "3 noticed by a test (75 %)" in text
    assert "- small.py:4 takes from the front (`whole += values.pop()`)" in text
    assert "| once | small.py | killed | test_small.py::test_total |" in text
    why = {"module": "small.py", "code": verdicts[2].code, "what": verdicts[2].what, "why": "sums have no order"}
    explained = page(verdicts, {}, [why], 3, ["other.py"])
    assert "| small.py | 4 | 2 | 1 | 1 | 0 |" in explained and "): sums have no order" in explained
    assert "other.py" in explained


def test_tests_that_fail_without_a_change_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.judging.OPTIONS", ("-x", "-q", "-p", "no:cacheprovider"))
    (folder / "small.py").write_text(MODULE.replace("whole = 0", "whole = 1"))
    with pytest.raises(ValueError, match=r"test_small\.py fails before anything is changed"):
        next(judge(folder, "small.py", ["test_small.py"], [change(2, "same", "= 0", "= 0")]))


def test_verdicts_outlive_a_run_that_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    killed = Verdict("a.py", 1, "one", "x", "m1", "t1", "killed", 0.5)
    survived = Verdict("a.py", 2, "two", "y", "m2", "t1", "survived", 0.5)
    results = Results(file)
    for verdict in (killed, survived):
        results.add(verdict)
    with file.open("a") as half:
        half.write('{"module": "a.py", "li')
    again = Results(file)
    assert again.find("a.py", "m1", "t1") == killed and again.find("a.py", "m2", "t1") == survived
    assert again.find("a.py", "m1", "t2") is None  # the tests are others now
    assert again.find("a.py", "m1", "t2", kills_stay=True) == killed
    assert again.find("a.py", "m2", "t2", kills_stay=True) is None
