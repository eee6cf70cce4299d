"""Runs without a server: no Prefect, mistakes reported before any work, and a log that says everything once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.processes.forked import Interpreter
from tests.support.text.synthetic_text import write_corpus


def environment(home: Path) -> dict[str, str]:
    """The environment of a run without a server."""
    bare = {name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "YIWEN_CORPUS")}
    own = {"YIWEN_HOME": str(home), "PREFECT_HOME": str(home / "prefect"), "PYTHONPATH": str(REPOSITORY)}
    return bare | own


def flows(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "flows", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment(home), capture_output=True, text=True, check=False)


COMMAND = "import sys; from flows.cli import main; sys.exit(main(sys.argv[1:]))"
"""The command line without what ends it when it is interrupted."""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    with Interpreter(tmp_path_factory.mktemp("interpreter"), "flows.__main__", "flows.corpus") as found:
        yield found


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("run", ["corpus/refresh", "corpus=http://127.0.0.1:1/x.jsonl?token=s3cret&f=x.jsonl"]),
        ("plan", ["corpus/refresh", 'corpus=["texts/", "https://ward/x?X-Amz-Signature=s3cret"]']),
        ("submit", ["corpus/refresh", "benchmarks=texts/,https://ward/x?apikey=s3cret"]),
        ("run", ["pretrain/ehealth-tiny", "products.source=postgresql://reader@db/shop?password=s3cret"]),
        ("run", ["finetune/classify", "model=s3://bucket/model?secret=s3cret"]),
    ],
)
def test_secret_in_a_uri_is_neither_recorded_nor_repeated(
    verb: str, given: list[str], tmp_path: Path, interpreter: Interpreter
) -> None:
    words = [word for one in given[1:] for word in ("--param", one)]
    around = {**environment(tmp_path / "store"), **({"PREFECT_API_URL": "http://x/api"} if verb == "submit" else {})}
    done = interpreter.run(COMMAND, [verb, given[0], *words], around)
    assert done.returncode == 2, done.stderr
    assert "=***" in done.stderr and "contains a secret" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    assert not (tmp_path / "store").exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["corpus/refresh", "--param", "clean.profil=x"], "unknown key 'clean.profil'"),
        (["corpus/refresh", "--param", "corpus=nowhere/"], "nowhere"),
        (["corpus/refresh", "--param", "segment.min_tokens=many"], "segment.min_tokens"),
        (["corpus/refresh", "--param", "korpus=x"], "no parameter 'korpus'"),
        (["pretrain/ehealth-tiny", "--param", "training.stepz=3"], "stepz"),
        (["pretrain/ehealth-tiny", "--param", "model.num_heads=7"], "num_heads"),
    ],
)
def test_mistake_is_reported_in_one_line_before_any_work(
    given: list[str], message: str, tmp_path: Path, interpreter: Interpreter
) -> None:
    done = interpreter.run(COMMAND, ["run", *given], environment(tmp_path / "store"))
    assert done.returncode == 2
    assert done.stdout == ""
    (error,) = done.stderr.splitlines()
    assert error.startswith("error: ") and message in error
    assert not (tmp_path / "store").exists(), "nothing was begun"


def test_run_says_everything_once_and_the_result_last(tmp_path: Path, interpreter: Interpreter) -> None:
    corpus, home = write_corpus(tmp_path / "texts"), tmp_path / "store"
    given = ["run", "corpus/refresh", "--param", f"corpus={corpus}", "--param", "training.steps=5"]
    first, again = flows(*given, home=home), interpreter.run(COMMAND, given, environment(home))
    assert first.returncode == again.returncode == 0, first.stderr
    for done, word in ((first, " in "), (again, " reused ")):
        lines = done.stderr.splitlines()
        assert lines[0].startswith("warning: ") and "training.steps" in lines[0]
        assert lines[1] == f"Running on this machine, without a server; artifacts are stored in {home}"
        names = ["ingest", "clean", "deidentify", "deduplicate", "segment", "report_corpus"]
        assert [line.partition(":")[0] for line in lines[2:8]] == names
        assert all(word in line for line in lines[2:8])
        assert lines[8].startswith("Page of this run, with its date and what has changed: ")
        summed, header, *table, page, following, last = lines[9:]
        assert summed.startswith("6 stages, ") and last == "corpus/refresh has finished. Its result:"
        assert header.split()[:2] == ["sub-domain", "documents"] and table[-1].split()[:2] == ["all", "100"]
        assert page == f"Page: {lines[8].partition(': ')[2]}" and Path(page.removeprefix("Page: ")).is_file()
        assert following.startswith("Next: "), "with the interpreter that was typed"
        assert following.endswith(f"python -m flows run pretrain/ehealth-tiny --param corpus={corpus}")
        assert Path(done.stdout.strip()).parent == home / "segment"
    assert "6 of them reused" in again.stderr
    quiet = interpreter.run(COMMAND, ["-q", *given], environment(home))
    assert quiet.stdout == again.stdout
    assert [line.partition(":")[0] for line in quiet.stderr.splitlines()] == ["warning"]


def test_local_run_imports_neither_prefect_nor_ray(tmp_path: Path, interpreter: Interpreter) -> None:
    script = (
        "import sys; from flows.cli import main; status = main(sys.argv[1:]); "
        "print([name for name in ('prefect', 'ray', 'torch') if name in sys.modules]); sys.exit(status)"
    )
    corpus = write_corpus(tmp_path / "texts")
    given = ["run", "corpus/refresh", "--param", f"corpus={corpus}"]
    done = interpreter.run(script, given, environment(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert not (tmp_path / "store" / "prefect").exists()


def test_flow_is_prefects_once_prefect_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys\nif sys.argv[1:]: import prefect\n"
        "from flows.corpus import corpus\nprint(type(corpus).__module__, corpus.name, corpus.fn.__name__)"
    )
    with Interpreter(tmp_path, "flows.recipes.data") as interpreter:  # all that a flow imports before it is declared
        without, given = (interpreter.run(script, some, environment(tmp_path)) for some in ([], ["prefect"]))
    assert without.stdout == "tasks.runner.flow corpus corpus\n"
    assert given.stdout == "tasks.runner.prefect_run corpus corpus\n", given.stderr
