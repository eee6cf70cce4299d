"""The program itself: its name, its help, misspelt verbs and options, and the command of a checkout."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.catalogue import load_catalogue
from flows.cli import main
from flows.cli.app import VERBS, make_app
from flows.cli.list import parameters_of, settings_of
from flows.recipes.loading import read_preset
from flows.recipes.pretraining import load_preset
from infra.settings import REPOSITORY
from infra.version import VERSION


def called(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, "argv", [name])


def test_help_has_every_verb_with_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    shown = {line.split()[0]: line for line in lines if line.strip()}
    assert shown.keys() >= VERBS.keys()
    assert not [verb for verb in VERBS if shown[verb].endswith("...")]


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_explained(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [parameter.name for parameter in make_app().commands[verb].params if not parameter.help] == []
    assert main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: python -m flows {verb}")


@pytest.mark.parametrize(
    ("program", "name"), [("/opt/x/bin/yiwen", "yiwen"), ("/x/flows/__main__.py", "python -m flows")]
)
def test_examples_say_the_name_that_was_called(
    program: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch, program)
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: {name} run" in shown and f"    {name} run pretrain/ehealth-tiny\n" in shown
    other = {"yiwen": "python -m flows", "python -m flows": "yiwen run"}[name]
    assert other not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nrmalise"], "No such command 'nrmalise'. Did you mean 'normalise'?"),
        (["run"], "Missing argument"),
        (["run", "corpus/refresh", "--parm", "a=b"], "No such option: --parm (Possible options: --param)"),
        (["run", "corpus/refresh", "texts/"], "(texts/). Parameters are given as --param KEY=VALUE, such as --param"),
        (["compare", "a", "b", "--split", "tset"], "Invalid value for '--split': 'tset' is not one of 'dev', 'test'."),
        (["export", "--run", "r", "--output", "o", "--step", "x"], "Invalid value for '--step'"),
    ],
)
def test_misuse_is_explained_with_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[0].startswith("Usage: python -m flows")
    assert message in shown.err.splitlines()[-1]


def test_without_a_verb_all_verbs_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert "  plan " in shown.out and "  deidentify " in shown.out and shown.err == ""


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"yiwen {VERSION}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["lits"]])
def test_answers_wait_for_nothing_heavy(arguments: list[str]) -> None:
    heavy = ("torch", "ray", "prefect", "rich", "polars", "pyarrow", "numpy", "jieba")
    script = (
        "import sys; from flows.cli import main; main(sys.argv[1:]); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_list_has_a_line_for_each_flow_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    entries = load_catalogue()
    assert len(lines) == len(entries) + len({entry.name.partition("/")[0] for entry in entries})
    place = lines.index("finetune")
    assert lines[place + 1].split()[0].startswith("finetune/")


def test_everything_that_a_flow_takes_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    bare: set[str] = set()
    for entry in load_catalogue():
        function = entry.load_flow().fn
        module: Any = sys.modules[entry.module]
        assert hasattr(module, "SETTINGS") or "overrides" not in entry.parameters, entry.name
        settings = settings_of(
            getattr(module, "SETTINGS", ()), entry.parameters.get("preset"), getattr(module, "USED", None)
        )
        bare |= {one.key for one in (*parameters_of(entry, function), *settings) if not one.meaning}
    assert bare == set()


def test_list_shows_only_keys_that_a_parameter_can_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "compare/papers"]) == 0
    parameters, keys = capsys.readouterr().out.split("\nKeys")
    assert "\n  flops  (" in parameters and "\n  tuning.seeds  (" in keys
    assert "\n  flops  (" not in keys and "\n  description  (" not in keys


def test_keys_of_a_preset_are_listed_with_its_values_and_are_ones_that_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "pretrain/ehealth-tiny"]) == 0
    shown = capsys.readouterr().out
    assert "  training.steps  (int, default 2000 in ehealth-tiny)\n      " in shown
    assert '  preset  (text, default "ehealth-tiny")\n      name of a shipped preset' in shown
    keys = {
        line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2:3] != " " and "." in line
    }
    values = read_preset("ehealth-tiny").nested
    given = {f"{section}.{key}" for section, held in values.items() if isinstance(held, dict) for key in held}
    assert keys >= given
    assert load_preset("ehealth-tiny", {"training.adam_beta1": 0.8, "segment.min_tokens": 20})
    assert {"training.adam_beta1", "segment.min_tokens", "model.num_layers", "cluster.workers"} <= keys


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("yiwen pla", "plan"),
        ("yiwen run pretrain/ehealth-t", "pretrain/ehealth-tiny"),
        ("yiwen run corpus/refresh --param segment.min_t", "segment.min_tokens="),
        ("yiwen plan corpus/refresh --param cor", "corpus="),
        ("yiwen run no/such --param cor", ""),
        ("yiwen show seg", ""),  # without a store there is nothing to complete
    ],
)
def test_shell_completes_names(
    typed: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch, "yiwen")
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("_YIWEN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == [found] * bool(found)


def test_command_of_a_checkout_runs_from_any_folder(tmp_path: Path) -> None:
    environment = tmp_path / "an environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(sys.executable)
    write_command = runpy.run_path(str(REPOSITORY / ".ci" / "command.py"))["write_command"]
    command = write_command(environment, REPOSITORY)
    (tmp_path / "flows").mkdir()  # the working folder is not searched for modules
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [command, "run", "pretrain/ehealth-tyni"], cwd=tmp_path, env=bare, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "error: There is no flow 'pretrain/ehealth-tyni'. Did you mean pretrain/ehealth-tiny?\n"
    help_text = subprocess.run([command, "run", "--help"], cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert "Usage: yiwen run" in help_text.stdout
    # A worker that the service spawns imports the command under another name, and must not begin it again.
    script = f"import runpy; runpy.run_path({str(command)!r}, run_name='__mp_main__'); print('imported')"
    worker = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert worker.stdout == "imported\n", worker.stderr


def test_types_are_those_of_users_and_near_names_are_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "finetune/classify"])
    shown = capsys.readouterr().out
    assert "finetune.batch_sizes  (list of whole number | null, default null)" in shown and "object at 0x" not in shown
    assert main(["run", "finetune/classify", "--param", "text_feld=主诉"]) == 2
    assert capsys.readouterr().err == (
        "error: finetune/classify has no parameter 'text_feld'. Did you mean text_field? python -m flows list "
        "finetune/classify explains them all.\n"
    )
    assert main(["run", "finetune/classify", "--param", "zzz=1"]) == 2
    assert capsys.readouterr().err.endswith(
        "have a section and a dot; python -m flows list finetune/classify shows them.\n"
    )


def test_serve_asks_for_what_its_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("flows.service.running.serve", lambda settings, say: asked.append(settings) or 0)
    assert main(["serve", "--deidentify", "--profile", "hipaa", "--encoder", "--port", "8123"]) == 0
    assert main(["serve", "--deidentify"]) == 0
    first, second = asked
    assert (first.deidentify, first.profile, first.encoder, first.port) == (True, "hipaa", True, 8123)
    assert (second.profile, second.encoder) == ("minimal", False)
