"""Flow `corpus`, run again after files were added, changed and deleted: its work is in proportion to the new data, and
its result is that of a rebuild.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from flows.corpus import corpus as corpus_flow
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from kg.sources import cmekg
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tests.support.processes.forked import Forked, Interpreter
from tests.support.text.edited import document, edited

pytestmark = pytest.mark.slow

FILES = 40
OVERRIDES = {"ingest.bytes_per_part": 8192, "segment.min_tokens": 10, "deduplicate.threshold": 0.7}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "corpus")


def write_files(root: Path) -> Path:
    """Write 40 files of synthetic dialogues and articles, some with near-duplicates in other files."""
    drawn = random.Random(5)
    texts = [f"{document(drawn, 5)}电话13{drawn.randrange(10**9):09d}。" for _ in range(FILES * 5)]
    texts += [edited(text, 0.01, drawn) for text in texts[:30]]
    drawn.shuffle(texts)
    for number in range(FILES):
        write_file(root, number, texts[number::FILES])
    return root


@dataclass(frozen=True)
class First:
    """A finished run on the same files in another folder; leave both as they are."""

    folder: Path
    home: Path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> First:
    parent = tmp_path_factory.mktemp("first")
    made = First(write_files(parent / "corpus"), parent / "home")
    with pytest.MonkeyPatch.context() as patch:
        refresh(made.folder, made.home, patch)
    return made


@pytest.fixture
def home(first: First, tmp_path: Path) -> Path:
    """A store of the test's own, in which that run has finished."""
    return shutil.copytree(first.home, tmp_path / "home")


def write_file(root: Path, number: int, texts: list[str]) -> None:
    place = root / ("dialogue", "article")[number % 2] / f"{number:03d}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), encoding="utf-8")


def refresh(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Artifact:
    monkeypatch.setenv("YIWEN_HOME", str(home))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    corpus_flow.fn(str(root), overrides=OVERRIDES, **given)
    found = ArtifactStore(home).latest("segment")
    assert found is not None
    return found


def content(home: Path, stage: str) -> list[Any]:
    """Return the rows of the newest artifact of a stage, in order."""
    artifact = ArtifactStore(home).latest(stage)
    assert artifact is not None
    return artifact.to_table().to_pylist()


def test_refresh_gives_the_result_of_a_rebuild(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(6)
    write_file(folder, 100, [document(drawn, 5) for _ in range(3)])
    write_file(folder, 7, [document(drawn, 5) for _ in range(3)])
    (folder / "dialogue" / "010.jsonl").unlink()
    refreshed = refresh(folder, home, monkeypatch)
    rebuilt = refresh(folder, tmp_path / "rebuilt", monkeypatch)
    for stage in ("near", "deduplicate", "segment"):
        assert content(home, stage) == content(tmp_path / "rebuilt", stage)
    assert refreshed.manifest.counters == rebuilt.manifest.counters
    assert refreshed.fingerprint == rebuilt.fingerprint
    assert rebuilt.manifest.taken_over_parts == 0
    store = ArtifactStore(home)
    for stage in ("ingest", "clean", "deidentify", "sketches", "segment"):
        artifact = store.latest(stage)
        assert artifact is not None
        parts = len(artifact.parts())
        assert parts > 10
        assert artifact.manifest.taken_over_parts >= parts - 6, stage


def test_a_repeated_run_adds_nothing(first: First, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [(one.stage, one.fingerprint) for one in ArtifactStore(home).list()]
    assert content(home, "segment")
    refresh(first.folder, home, monkeypatch)
    assert [(one.stage, one.fingerprint) for one in ArtifactStore(home).list()] == before


def test_the_same_files_elsewhere_are_the_same_corpus(
    first: First, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ArtifactStore(first.home).latest("segment")
    assert found is not None and folder != first.folder
    before = len(ArtifactStore(home).list())
    assert refresh(folder, home, monkeypatch).fingerprint == found.fingerprint
    assert len(ArtifactStore(home).list()) == before


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    with Interpreter(tmp_path_factory.mktemp("interpreter"), "flows.corpus") as found:
        yield found


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_refresh_neither_loses_nor_repeats_documents(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter, seed: int
) -> None:
    drawn = random.Random(seed)
    script = (
        "import json, sys; from flows.corpus import corpus; corpus.fn(sys.argv[1], overrides=json.loads(sys.argv[2]))"
    )
    environment = {**os.environ, "YIWEN_HOME": str(tmp_path / "home"), "YIWEN_WORKERS": "1"}
    killed = 0
    for _ in range(2):
        process = interpreter.start(script, [str(folder), json.dumps(OVERRIDES)], environment)
        wait_for_work(tmp_path / "home", drawn.randrange(1, 60), process)
        killed += process.poll() is None
        process.kill()
        assert process.wait() in (0, -signal.SIGKILL), process.stderr
        write_file(folder, 200 + drawn.randrange(1000), [document(drawn, 5)])
    assert killed, "both runs had ended before"
    refresh(folder, tmp_path / "home", monkeypatch)
    refresh(folder, tmp_path / "rebuilt", monkeypatch)
    for stage in ("ingest", "near", "deduplicate", "segment"):
        assert content(tmp_path / "home", stage) == content(tmp_path / "rebuilt", stage)


def wait_for_work(home: Path, parts: int, process: Forked) -> None:
    """Wait until there are that many parts, or the run has ended."""
    while process.poll() is None:
        files = [file for _, _, found in os.walk(home) for file in found if file.endswith(".parquet")]
        if len(files) >= parts:
            return
        time.sleep(0.01)


def test_benchmarks_and_a_dictionary_are_used(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(9)
    secret = document(drawn, 4)
    write_file(folder, 300, [document(drawn, 3) + secret + document(drawn, 3)])
    (tmp_path / "test.jsonl").write_text(json.dumps({"question": secret}, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "terms.txt").write_text("前列腺可能有\n", encoding="utf-8")
    found = refresh(
        folder,
        home,
        monkeypatch,
        benchmarks=str(tmp_path / "test.jsonl"),
        dictionary=str(tmp_path / "terms.txt"),
    )
    rows = found.to_table().to_pylist()
    assert not any(secret[:13] in row["text"] for row in rows)
    row = next(row for row in rows if "前列腺可能有" in row["text"])
    assert len("前列腺可能有") in row["words"]
    report = ArtifactStore(home).latest("report_corpus")
    assert report is not None
    summary = json.loads(report.read_file("summary.json"))
    assert [row["benchmark"] for row in summary["contamination"]] == ["test.jsonl"] * len(summary["contamination"])
    replaced = {row["kind"]: row["count"] for row in summary["replaced"]}
    assert summary["contamination"] and replaced["mobile"] > 50


def test_a_corpus_with_no_document_left_is_refused(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"decontaminate left no document \(contaminated \d+\)"):
        refresh(folder, home, monkeypatch, benchmarks=str(folder))


@pytest.mark.parametrize("how", [{"deidentify.profile": "hipaa"}, {"deidentify.kinds.hospital": True}])
def test_settings_of_a_treatment_that_treats_nothing_are_refused(
    how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that names no source counts as article, which is left as it is: a user must not believe otherwise."""
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    text = "患者王伟，男，63岁，电话13812345678，主诉反复咳嗽三天，伴有发热。" * 4
    (tmp_path / "notes.jsonl").write_text(json.dumps({"text": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    given = {"deduplicate.threshold": None, "segment.min_tokens": 5}
    corpus = str(tmp_path / "notes.jsonl")
    with pytest.raises(UserError, match=r"so that deidentify\.(profile|kinds) changed nothing.*ingest\.source=emr"):
        corpus_flow.fn(corpus=corpus, overrides={**given, **how})
    corpus_flow.fn(corpus=corpus, overrides=given)
    corpus_flow.fn(corpus=corpus, overrides={**given, **how, "ingest.source": "emr"})
    treated = ArtifactStore(tmp_path / "home").latest("deidentify")
    assert treated is not None and "王伟" not in str(treated.to_table("documents")["text"].to_pylist())


def test_the_default_corpus_is_that_of_the_environment(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The schedule names no corpus, and must refresh the user's text instead of the demo."""
    named = refresh(folder, home, monkeypatch)
    monkeypatch.setenv("YIWEN_CORPUS", f"{folder}/dialogue,{folder}/article")
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "other"))
    corpus_flow.fn(overrides=OVERRIDES)
    taken = ArtifactStore(tmp_path / "other").latest("segment")
    assert taken is not None
    texts = [sorted(found.to_table()["text"].to_pylist()) for found in (named, taken)]
    assert texts[0] == texts[1]
    assert caplog.text == ""
    assert refresh(folder, tmp_path / "other", monkeypatch).fingerprint == named.fingerprint  # a named corpus wins


def test_a_missing_corpus_of_the_environment_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_CORPUS", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere"):
        corpus_flow.fn()
    assert ArtifactStore(tmp_path / "home").list() == []


def test_the_demo_corpus_comes_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    facts = {f"药{n}": {"成份": ["水", f"物质{n}"], "不良反应": ["恶心", "呕吐", "头痛"]} for n in range(9)}
    (tmp_path / "cmekg.pkl").write_bytes(pickle.dumps(facts))
    monkeypatch.setattr(cmekg, "locate", lambda: tmp_path / "cmekg.pkl")
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    corpus_flow.fn(overrides={"deduplicate.threshold": None, "segment.min_tokens": 5})
    (record,) = [record for record in caplog.records if record.name == "flows"]
    assert record.levelname == "WARNING"
    assert "templated from the facts of CMeKG" in record.message and "YIWEN_CORPUS" in record.message


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "training.stps",
            r"unknown key 'training\.stps' .*; did you mean 'training\.steps'",
        ),
        ("trainig.steps", r"unknown key 'trainig\.steps' .*; did you mean 'training\.steps'"),
        ("neighbours.depht", "unknown key 'neighbours.depht'"),
        ("link.minimum", "unknown key 'link.minimum'"),
    ],
)
def test_a_mistyped_key_is_reported_even_in_sections_that_the_flow_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, message: str
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    with pytest.raises(UserError, match=message):
        corpus_flow.fn(str(tmp_path), overrides={key: 3})


def test_ignored_settings_are_named_in_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    overrides = {"training.steps": 3, "segment.min_tokens": 5, "vocabulary.size": 9000, "neighbours.k": 3}
    with pytest.raises(UserError, match="nowhere"):
        corpus_flow.fn(str(tmp_path / "nowhere"), overrides=overrides)
    (record,) = [record for record in caplog.records if record.name == "flows"]
    assert record.levelname == "WARNING"
    assert "This flow ignores neighbours.k, training.steps, vocabulary.size:" in record.message


def test_tokens_are_counted_with_a_given_vocabulary(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(folder, 400, [f"{document(random.Random(8), 5)}hypertension"])
    estimated = refresh(folder, home, monkeypatch)
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*SPECIAL_TOKENS, "hypertension"]), encoding="utf-8")
    assert page(home)[0] is False and "Tokens are estimated" in page(home)[1]
    counted = refresh(folder, home, monkeypatch, vocabulary_file=str(file))
    assert page(home)[0] is True and "Tokens are counted" in page(home)[1]
    adopted = ArtifactStore(home).latest("adopt_vocabulary")
    assert adopted is not None and adopted.fingerprint == counted.manifest.inputs["vocabulary"].fingerprint
    tokenizer = Tokenizer.from_str(adopted.read_file("tokenizer.json").decode())
    rows = counted.to_table().to_pylist()
    own = [len(tokenizer.encode(row["text"], add_special_tokens=False).ids) for row in rows]
    assert [row["tokens"] for row in rows] == own
    assert sum(own) == sum(estimated.to_table()["tokens"].to_pylist()) - 2  # it counts 12 letters as 3


def page(home: Path) -> tuple[bool, str]:
    """Return whether the newest page says that tokens are counted, and the page."""
    report = ArtifactStore(home).latest("report_corpus")
    assert report is not None
    summary = json.loads(report.read_file("summary.json"))
    return summary["tokens_are_counted"], report.read_file("report.html").decode()


def test_every_run_names_the_page_about_the_corpus(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for made in ("report_corpus: 3 files", "report_corpus: reused"):
        refresh(folder, tmp_path / "home", monkeypatch)
        report = ArtifactStore(tmp_path / "home").latest("report_corpus")
        assert report is not None
        line = next(line for line in capsys.readouterr().err.splitlines() if line.startswith(made))
        assert line.endswith(f"; {report.path}/report.html")


def test_an_unreadable_dictionary_is_reported_before_any_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "terms.txt").write_bytes("张力性气胸".encode("gb18030"))
    with pytest.raises(UserError, match=r"terms\.txt is not UTF-8"):
        refresh(folder, tmp_path / "home", monkeypatch, dictionary=str(tmp_path / "terms.txt"))
    assert ArtifactStore(tmp_path / "home").list() == []


@pytest.mark.parametrize("name", ["benchmarks", "dictionary", "vocabulary_file"])
def test_missing_files_are_reported_before_any_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(UserError, match="nowhere"):
        refresh(folder, tmp_path / "home", monkeypatch, **{name: str(tmp_path / "nowhere")})
    assert ArtifactStore(tmp_path / "home").list() == []
