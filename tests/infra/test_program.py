"""The name of the program in what it prints: a command that is copied from there has to run."""

from __future__ import annotations

import pytest

from infra.program import as_called, program


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (["python", "-m", "flows", "run"], "python -m flows"),
        ([".venv/bin/python", "-m", "flows", "run"], ".venv/bin/python -m flows"),
        (["/my env/bin/python", "-m", "flows"], "'/my env/bin/python' -m flows"),
        ([".venv/bin/python", "-m", "pytest", "flows"], "python -m flows"),
        ([".venv/bin/python", "-m"], "python -m flows"),
    ],
)
def test_commands_have_the_interpreter_that_was_typed(
    typed: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.orig_argv", typed)
    monkeypatch.setattr("sys.argv", ["flows/__main__.py"])
    assert program() == name
    assert as_called("Run `python -m flows list`.") == f"Run `{name} list`."
    assert as_called(as_called("Run python -m flows list.")) == f"Run {name} list."
    monkeypatch.setattr("sys.argv", ["/usr/bin/yiwen"])
    assert as_called("Run python -m flows list.") == "Run yiwen list."
