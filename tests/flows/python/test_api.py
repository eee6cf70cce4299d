"""Yiwen from Python: keywords that are checked, settings, where progress is shown, and text that is never obeyed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import yiwen
from flows.api.configuration import current_display
from flows.api.prediction import Predictions, Predictor
from flows.api.results import Corpus
from flows.api.terms import Normaliser
from infra.artifacts import ArtifactStore
from infra.console.displayed import marked, shown_path, table
from infra.errors import DamagedArtifactError
from infra.settings import REPOSITORY
from kg.graph import KnowledgeGraph
from tasks.downstream.features.base import Prediction
from tests.support.text.synthetic_text import synthetic_texts, write_corpus

SMALL = {"segment.min_tokens": 8}
EVIL = "<script>alert(1)</script>\x1b[2K&"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with yiwen.configure(home=tmp_path / "home", workers=1):
        yield tmp_path / "home"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("texts") / "corpus")


def test_import_is_light() -> None:
    script = (
        "import sys, yiwen; names = dir(yiwen); yiwen.configure; "
        "print([name for name in ('torch', 'prefect', 'polars', 'numpy', 'pydantic') if name in sys.modules]); "
        "yiwen.deidentify('王伟'); print('torch' in sys.modules, 'prefect' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False False"]


def test_every_name_is_there_and_no_other() -> None:
    assert set(dir(yiwen)) == set(yiwen.__all__)
    assert all(getattr(yiwen, name) is not None for name in yiwen.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'pretrian'"):
        yiwen.pretrian  # noqa: B018


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: yiwen.corpus.refresh(korpus="x"),
            r"no parameter 'korpus' \(did you mean 'corpus'\?\); it has c",
        ),
        (lambda: yiwen.corpus.refresh(overrides={"segment.min_token": 8}), r"did you mean 'segment\.min_tokens'"),
        (lambda: yiwen.corpus.refresh(corpus=5), r"^corpus=5 cannot be used: must be text"),
        (lambda: yiwen.corpus.refresh(corpus="nowhere/"), "nowhere"),
        (lambda: yiwen.pretrain(presets="bert"), r"pretrain has no parameter 'presets' \(did you mean 'preset'\?\)"),
        (lambda: yiwen.pretrain(preset="bret"), r"bert"),
        (lambda: yiwen.finetune(), r"finetune: missing a required argument: 'tasks'. Its parameters are tasks, model"),
        (lambda: yiwen.finetune(tasks="cmedqq"), r"Give its folder, as in model=FOLDER\.$"),
        (lambda: yiwen.normalise.index(rank=True), "index has no parameter 'rank'"),
        (lambda: yiwen.normalise.chip_cdn(term="x"), r"did you mean 'terms'\?"),
        (lambda: yiwen.configure(hom="x"), r"no setting 'hom' \(did you mean 'home'\?\); there are home, workers"),
        (lambda: yiwen.configure(workers=0), r"YIWEN_WORKERS='0' is not a positive whole number"),
        (lambda: yiwen.deidentify("王伟", profile="hippa"), "no profile 'hippa'; there are minimal, hipaa"),
        (lambda: yiwen.deidentify("x", kinds={"nmae": True}), "nmae"),
        (lambda: yiwen.deidentify("x", operator="masc"), "no operator 'masc'; there are placeholder, mask"),
        (lambda: yiwen.deidentify("x", operators={"date": "mnth"}), "no operator 'mnth'"),
        (lambda: yiwen.deidentify("x", encoder="no"), "takes encoder=True or encoder=False, and was given 'no'"),
        (lambda: yiwen.deidentify("x", recogniser=0), "takes recogniser=True or recogniser=False, and was given 0"),
        (lambda: yiwen.deidentify(None), "takes one text, and was given NoneType"),
        (lambda: yiwen.deidentify(["a", "b"]), "takes one text, and was given list"),
        (lambda: yiwen.KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "b")]), "Triple 1 has 2 names"),
        (lambda: yiwen.KnowledgeGraph.from_triples([("血压", "高于", 140)]), "Triple 0 has a name that is not text"),
        (lambda: yiwen.KnowledgeGraph.from_triples([], types=["疾病"]), "types is list and no mapping"),
        (lambda: Normaliser.normalise(object.__new__(Normaliser), "高血压"), r"takes a list of texts.*\['高血压'\]"),
        (lambda: Normaliser.normalise(object.__new__(Normaliser), ["胃炎", None]), "number 1 is None and no text"),
        (lambda: Predictor.predict(object.__new__(Predictor), "胸闷"), r"takes a list of texts.*\['胸闷'\]"),
        (lambda: yiwen.Predictor("nowhere"), "There is no folder nowhere"),
        (
            lambda: yiwen.Predictor("x", devise="cpu"),
            r"no parameter 'devise' \(did you mean 'device'\?\)",
        ),
        (lambda: yiwen.Normaliser("x", treshold=1), r"Normaliser has no parameter 'treshold' .*'threshold'\?"),
        (lambda: yiwen.Normaliser(["x"]), "Normaliser takes a folder, and was given list"),
        (lambda: yiwen.Normaliser("x", k="ten"), "k='ten' must be a whole number"),
        (lambda: yiwen.deidentify("x", profiel="hipaa"), r"deidentify has no parameter 'profiel' .*'profile'\?"),
        (lambda: yiwen.KnowledgeGraph.from_triples([], sources="x"), r"no parameter 'sources' .*'source'\?"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}, type={}), r"EntityLinker has no parameter 'type' .*'types'\?"),
        (lambda: yiwen.EntityLinker(["胃炎"]), "takes a mapping of names to ids, and was given list"),
        (lambda: yiwen.EntityLinker({"胃炎": 5}), "the id 5 of the name '胃炎' is not text"),
        (lambda: yiwen.EntityLinker({None: "D1"}), "the name None is not text"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}, types=["疾病"]), "types is list and no mapping"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}, type_priors=3), "type_priors is int and no mapping"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}, frequencies={"D1": "3"}), "frequencies has '3' for 'D1'"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}, type_priors={"疾病": -1}), "type_priors has -1 for '疾病'"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}, frequencies={"D1": float("nan")}), "frequencies has nan for 'D1'"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}).link(None), "link takes one text, and was given NoneType"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}).link_many("胃炎"), r"takes a list of texts.*\['胃炎'\]"),
        (lambda: yiwen.EntityLinker({"胃炎": "D1"}).link_many(["a", None]), "number 1 is None and not a text"),
        (lambda: yiwen.Normaliser("nowhere"), "nowhere contains no normaliser"),
    ],
)
def test_mistakes_are_explained(call: Any, message: str, home: Path) -> None:
    with pytest.raises(yiwen.UserError, match=message):
        call()
    assert not home.exists(), "nothing was begun"


def test_notebook_shows_an_error_in_one_line() -> None:
    assert DamagedArtifactError("Delete it.")._render_traceback_() == ["DamagedArtifactError: Delete it."]


def test_settings_are_put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("YIWEN_HOME", "before")
    monkeypatch.delenv("YIWEN_WORKERS", raising=False)
    with yiwen.configure(home=tmp_path, workers=2) as outer:
        with yiwen.configure(progress=False) as inner:
            assert inner.home == outer.home == os.environ["YIWEN_HOME"] == str(tmp_path)
            assert current_display() == "none" and "progress: not shown" in repr(inner)
        assert current_display() == "terminal" and os.environ["YIWEN_WORKERS"] == "2"
        with pytest.raises(yiwen.UserError):
            yiwen.configure(home="after", workers=-1)
        assert os.environ["YIWEN_HOME"] == str(tmp_path)
    assert os.environ["YIWEN_HOME"] == "before" and "YIWEN_WORKERS" not in os.environ


def test_settings_say_that_no_home_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIWEN_HOME", raising=False)
    with yiwen.configure() as found:
        assert f"artifacts: {REPOSITORY / 'artifacts'} (YIWEN_HOME is not set)" in repr(found)


@contextlib.contextmanager
def in_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What code sees that a notebook's kernel runs."""
    shell = types.SimpleNamespace(kernel=object(), config={})
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
        yield


def test_progress_is_shown_where_the_caller_looks(
    home: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In a terminal on standard error, where bars are; in a notebook on standard output, which is not painted red.
    refreshed = yiwen.corpus.refresh(corpus=corpus, overrides=SMALL)
    shown = capsys.readouterr()
    assert shown.out == "" and "segment: 100 segments" in shown.err and str(home) in shown.err
    with in_kernel(monkeypatch):
        yiwen.corpus.refresh(corpus=str(corpus), overrides=SMALL | {"training.steps": 5})
    shown = capsys.readouterr()
    assert f"artifacts are stored in {home}" in shown.out and "segment: reused" in shown.out
    assert shown.err.startswith("warning: ") and len(shown.err.splitlines()) == 1
    with yiwen.configure(progress=False):
        again = yiwen.corpus.refresh(corpus=[corpus], overrides=SMALL | {"training.steps": 5})
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("warning: ") and len(shown.err.splitlines()) == 1
    assert again.path == refreshed.path == ArtifactStore(home).list("segment")[0].path


def test_files_of_a_run_are_private(home: Path, corpus: Path) -> None:
    refreshed = yiwen.corpus.refresh(corpus=corpus, overrides=SMALL)
    assert isinstance(refreshed.path, Path) and refreshed.path.stat().st_mode & 0o077 == 0


def test_result_shows_what_became_of_the_text(home: Path, tmp_path: Path) -> None:
    texts = write_corpus(tmp_path / "own")
    (texts / "more.jsonl").write_text('{"text": "短"}\n{"text": "短"}\nnot json\n', encoding="utf-8")
    refreshed = yiwen.corpus.refresh(corpus=texts, overrides=SMALL)
    assert refreshed.title == "100 segments of 101 documents"
    said = repr(refreshed)
    assert "segment | 100 segments" in said and str(refreshed.page) in said
    assert [one.stage for one in refreshed.stages] == ["ingest", "clean", "deidentify", "deduplicate", "segment"]
    assert refreshed.page is not None and Path(refreshed.page).read_text(encoding="utf-8").startswith("<!")
    assert os.fspath(refreshed) == str(refreshed.path)
    assert Corpus.at(f"{refreshed.path}/").title == refreshed.title
    with pytest.raises(yiwen.UserError, match="is not the folder of an artifact"):
        Corpus.at(str(home / "segment" / "0"))
    assert (
        repr(refreshed.artifact) == f"segment {refreshed.artifact.fingerprint[:8]}: 100 segments, 3 lengths, 1 rejects"
    )


def test_an_encoder_reads_again_if_asked() -> None:
    text = "取消预约成功:成龙飞,心血管内科,04-27下午,号源已释放。一个月内爽约三次将限制预约。"
    assert yiwen.deidentify(text).counts == {} and yiwen.deidentify(text, encoder=True).counts == {"name": 1}


def test_places_are_those_of_the_text_given() -> None:
    text = "患者王伟，电话13812345678，王伟诉头痛。"
    clean = yiwen.deidentify(text, operators={"mobile": "mask"})
    assert clean.text == "患者〔姓名〕，电话***********，〔姓名〕诉头痛。"
    assert [(text[one.start : one.end], one.kind, one.becomes) for one in clean.places] == [
        ("王伟", "name", "〔姓名〕"),
        ("13812345678", "mobile", "*" * 11),
        ("王伟", "name", "〔姓名〕"),
    ]
    assert clean.counts == {"name": 2, "mobile": 1} and "王伟" not in repr(clean)


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples([(EVIL, EVIL, "b")], types={EVIL: EVIL})
    answers = Predictions([Prediction((EVIL,), (0.5,))], [EVIL])
    deidentified = yiwen.deidentify(f"{EVIL}，电话13812345678。")
    pages = [one._repr_html_() for one in (graph, answers, deidentified)]
    pages += [table([EVIL], [[EVIL]]), marked(EVIL, [(0, 8, EVIL)]), marked(f"a{EVIL}", [(0, 1, '" onload="')])]
    for page in pages:
        assert "<script" not in page and "\x1b" not in page and "&lt;script&gt;" in page and ' onload="' not in page
    assert "\x1b" not in repr(answers) and repr(answers).splitlines()[0] == "text | answer | probability"
    assert "<mark" in pages[2] and "〔手机号〕" in pages[2]


def test_long_tables_are_cut() -> None:
    page = table(["n"], [[number] for number in range(60)])
    assert page.count("<tr>") == 51 and "and 10 more rows" in page


def test_paths_are_shown_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "a" / "b") == "a/b" and shown_path("s3://bucket/a") == "s3://bucket/a"
    assert shown_path(tmp_path.parent) == str(tmp_path.parent)


@pytest.mark.slow
def test_interrupted_cell_leaves_a_run_that_resumes(home: Path, tmp_path: Path) -> None:
    texts = synthetic_texts(tmp_path / "many", files=6)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until = time.monotonic() + 200
        while time.monotonic() < until:
            with contextlib.suppress(OSError):  # a folder was finished while it was looked at
                if len(list(home.glob("*/.*.partial/**/*.parquet"))) >= 8:
                    break
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)  # as the stop button of a notebook does

    watcher = threading.Thread(target=interrupt, daemon=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        watcher.start()
        with pytest.raises(KeyboardInterrupt):
            yiwen.corpus.refresh(corpus=texts, overrides=SMALL)
    finally:
        watcher.join()
        signal.signal(signal.SIGINT, before)
    left = len(list(home.glob("*/.*.partial")))
    assert left >= 1, "the stage that was interrupted is kept, and with it one that it is within"
    yiwen.corpus.refresh(corpus=texts, overrides=SMALL)
    store = ArtifactStore(home)
    made = [one for stage in store.stages() for one in store.list(stage)]
    assert sum(one.manifest.resumed_parts for one in made) >= 1
    assert not list(home.glob("*/.*.partial"))


def test_module_of_a_checkout_is_the_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "yiwen", "--version"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"yiwen {yiwen.__version__}\n"
