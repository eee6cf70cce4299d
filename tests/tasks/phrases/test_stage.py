"""The stages `phrases` and `phrase_segments` with both engines, on a small synthetic corpus; bad input; kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.session import RayExecutor, start_ray, stop_ray
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.phrases import candidates as phrase_candidates
from tasks.phrases import votes as phrase_votes
from tasks.phrases.autophrase import SEGMENT, SETTING
from tasks.phrases.autophrase_files import SINGLE_WORD
from tasks.phrases.segments import PhraseSegmentsParams, phrase_segments
from tasks.phrases.stage import PENALTY, POSITIVES, WORDS, PhrasesParams, phrases
from tests.support.processes.fake_program import fake
from tests.support.text.phrase_texts import NAMES, list_of, need_program, segments_of, texts

Engine = Literal["autophrase", "embedded"]
ENGINES = ["autophrase", "embedded"]


def params_of(engine: Engine, **others: Any) -> PhrasesParams:
    if engine == "autophrase":
        need_program()
    return PhrasesParams(engine=engine, trees=100, **others)


def rows_of(artifact: Artifact) -> list[dict[str, Any]]:
    return artifact.to_table().to_pylist()


def words_of(segment: dict[str, Any]) -> list[str]:
    ends = list(accumulate(segment["words"]))
    return [segment["text"][end - length : end] for end, length in zip(ends, segment["words"], strict=True)]


@pytest.mark.parametrize("engine", ENGINES)
def test_unlabelled_names_are_found_and_marked(store: ArtifactStore, tmp_path: Path, engine: Engine) -> None:
    segments = segments_of(store, texts(1, 500), texts(2, 300))
    inputs = {"segments": segments, "labels": list_of(tmp_path, NAMES[::2])}
    told: list[tuple[int, int, str]] = []

    def listen(name: str, done: int, total: int, note: str = "") -> None:
        told.append((done, total, note))

    found = run(phrases, store, params_of(engine), inputs, on_progress=listen).artifact
    assert told[0][0] == 0 and [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[-1][0] == told[-1][1] and len({total for _, total, _ in told}) == 1
    assert any("quality" in note.lower() for _, _, note in told)

    rows = rows_of(found)
    assert [row["quality"] for row in rows] == sorted((row["quality"] for row in rows), reverse=True)
    best = [row["surface"] for row in rows if len(row["words"]) > 1][: len(NAMES) - 2]
    assert len(set(best) & set(NAMES)) >= 0.9 * len(best)
    assert len(set(best) & set(NAMES[1::2])) > 8
    sources = {row["surface"]: row["labelled_by"] for row in rows}
    assert {sources[name] for name in NAMES[::2] if name in sources} == {"kg"}
    assert {sources[name] for name in NAMES[1::2] if name in sources} == {"none"}

    cut = [[word for word in words_of(row) if word.strip()] for row in segments.to_table().to_pylist()]
    for row in rows[:20]:
        length = len(row["words"])
        runs = (words[at : at + length] for words in cut for at in range(len(words)))
        assert row["frequency"] == sum(run == row["words"] for run in runs)

    given = {"segments": segments, "phrases": found}
    marked = run(phrase_segments, store, PhraseSegmentsParams(threshold=0.3), given).artifact
    counts: Counter[str] = Counter()
    by_id = {row["segment_id"]: row["text"] for row in segments.to_table().to_pylist()}
    for row in rows_of(marked):
        ends = [0, *(span["end"] for span in row["phrases"])]
        assert all(end <= span["start"] for end, span in zip(ends, row["phrases"], strict=False))
        counts.update(by_id[row["segment_id"]][span["start"] : span["end"]] for span in row["phrases"])
    whole = Counter(name for text in by_id.values() for name in NAMES for _ in range(text.count(name)))
    assert sum(counts[name] for name in NAMES[::2]) > 0.9 * sum(whole[name] for name in NAMES[::2])
    assert sum(counts[name] for name in NAMES[1::2]) > 0.5 * sum(whole[name] for name in NAMES[1::2])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("unit", ["words", "characters"])
def test_second_run_gives_the_same_result(tmp_path: Path, engine: Engine, unit: Any) -> None:
    tables = []
    for name in ("one", "two"):
        store = ArtifactStore(tmp_path / name)
        inputs = {"segments": segments_of(store, texts(3, 400)), "labels": list_of(tmp_path, NAMES[::2])}
        found = run(phrases, store, params_of(engine, unit=unit), inputs).artifact
        marked = run(phrase_segments, store, PhraseSegmentsParams(), {**inputs, "phrases": found}).artifact
        tables.append((rows_of(found), rows_of(marked)))
    assert tables[0] == tables[1]
    surfaces = {row["surface"] for row in tables[0][0]}
    if unit == "characters":
        assert all(len(word) == 1 for row in tables[0][0] for word in row["words"])
        assert {name for name in NAMES if len(name) <= 6} <= surfaces


def test_embedded_engine_does_not_depend_on_workers_or_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mined(executor: RayExecutor) -> tuple[Artifact, list[int]]:
        store = ArtifactStore(tmp_path / f"store-{executor.workers}")
        inputs = {"segments": segments_of(store, texts(3, 300)), "labels": list_of(tmp_path, NAMES[::2])}
        artifact = run(phrases, store, params_of("embedded"), inputs, executor=executor).artifact
        inner = [each for name in ("phrase_candidates", "phrase_votes") for each in store.list(name)]
        return artifact, [len(each.parts()) for each in inner]

    alone, units = mined(RayExecutor(1))
    assert units == [1, 1, 1]
    monkeypatch.setattr(phrase_candidates, "CODES_AT_ONCE", 1 << 12)
    monkeypatch.setattr(phrase_votes, "VOTES_AT_ONCE", 1 << 12)
    try:
        start_ray(2, None)
        executor = RayExecutor(2)
        together, units = mined(executor)
    finally:
        stop_ray()
    assert min(units) > 1 and not executor.in_process
    assert rows_of(together) == rows_of(alone)
    for name in (PENALTY, POSITIVES, WORDS):
        assert together.read_file(name) == alone.read_file(name)


def test_embedded_engine_reuses_counts_of_a_stopped_run(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = {"segments": segments_of(store, texts(3, 300)), "labels": list_of(tmp_path, NAMES[::2])}

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(phrase_votes, "votes_of", stop)
        run(phrases, store, params_of("embedded"), inputs)
    assert store.latest("phrases") is None and not list(tmp_path.rglob("run-*"))
    with caplog.at_level("DEBUG", "infra.stage"):
        found = run(phrases, store, params_of("embedded"), inputs).artifact
    assert "phrase_candidates: reused" in caplog.text
    assert found.rows() > 0 and not list(tmp_path.rglob("array-*"))


@pytest.mark.parametrize("engine", ENGINES)
def test_phrases_are_marked_in_other_text(store: ArtifactStore, tmp_path: Path, engine: Engine) -> None:
    inputs = {"segments": segments_of(store, texts(1, 500)), "labels": list_of(tmp_path, NAMES[::2])}
    found = run(phrases, store, params_of(engine), inputs).artifact
    other = segments_of(store, ["鼷鼠与糖尿病肾病、鼷鼠。", "。", "", "  糖尿病 肾病", "Zzyzx糖尿病肾病"])
    rows = rows_of(run(phrase_segments, store, PhraseSegmentsParams(), {"segments": other, "phrases": found}).artifact)
    texts_of = [row["text"] for row in other.to_table().to_pylist()]
    marked = [[text[s["start"] : s["end"]] for s in row["phrases"]] for text, row in zip(texts_of, rows, strict=True)]
    assert marked[0] == ["糖尿病肾病"] and marked[4] == ["糖尿病肾病"]
    assert marked[1] == marked[2] == [] and marked[3] == ["糖尿病 肾病"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [[], ["。，；", "  "]])
def test_empty_corpus_is_rejected(store: ArtifactStore, tmp_path: Path, engine: Engine, rows: list[str]) -> None:
    inputs = {"segments": segments_of(store, rows), "labels": list_of(tmp_path, NAMES)}
    with pytest.raises(UserError, match="Empty corpus"):
        run(phrases, store, params_of(engine), inputs)


@pytest.mark.parametrize("engine", ENGINES)
def test_wikipedia_alone_suffices_with_a_warning(
    store: ArtifactStore, tmp_path: Path, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    lists = {"wiki_quality.txt": NAMES[::2], "wiki_all.txt": NAMES[1:5:2], "stopwords.txt": ["已经"]}
    wiki = RawInput([list_of(tmp_path, names, "gb18030", name).path for name, names in lists.items()])
    inputs = {"segments": segments_of(store, texts(1, 500)), "wiki": wiki}
    found = run(phrases, store, params_of(engine), inputs).artifact
    assert "no knowledge graph" in caplog.text and "Wikipedia" in caplog.text
    assert found.manifest.counters["kg_names"] == 0 and found.manifest.counters["wiki_names"] == len(NAMES[::2])
    sources = {row["surface"]: row["labelled_by"] for row in rows_of(found)}
    assert set(sources.values()) == {"wiki", "none"}
    assert {sources[name] for name in NAMES[::2] if name in sources} == {"wiki"}


@pytest.mark.parametrize("engine", ENGINES)
def test_names_that_are_not_in_the_text_are_reported(store: ArtifactStore, tmp_path: Path, engine: Engine) -> None:
    inputs = {"segments": segments_of(store, texts(1, 300)), "labels": list_of(tmp_path, ["银河系", "黄帝内经素问"])}
    with pytest.raises(UserError, match=r"names.*nothing to learn from.*phrases\.min_support"):
        run(phrases, store, params_of(engine), inputs)


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_in_gb18030_equal_those_in_utf_8(tmp_path: Path, engine: Engine) -> None:
    tables = []
    for encoding in ("utf-8", "gb18030"):
        store = ArtifactStore(tmp_path / encoding)
        labels = list_of(tmp_path / encoding / "list", NAMES[::2], encoding)
        inputs = {"segments": segments_of(store, texts(1, 300)), "labels": labels}
        tables.append(rows_of(run(phrases, store, params_of(engine), inputs).artifact))
    assert tables[0] == tables[1]


def test_too_much_text_is_sampled_or_rejected(store: ArtifactStore, tmp_path: Path) -> None:
    inputs = {"segments": segments_of(store, texts(1, 600)), "labels": list_of(tmp_path, NAMES[::2])}
    whole = run(phrases, store, params_of("embedded"), inputs).artifact.manifest.counters["words_of_text"]
    half = run(phrases, store, params_of("embedded", max_words=whole // 2), inputs).artifact
    assert 0.3 * whole < half.manifest.counters["words_of_text"] < 0.5 * whole
    with pytest.raises(UserError, match="32 bits"):
        run(phrases, store, params_of("embedded", max_words=100, sample=False), inputs)


def test_missing_program_is_reported_before_any_work(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path))
    inputs = {"segments": segments_of(store, texts(1, 10)), "labels": list_of(tmp_path, NAMES)}
    with pytest.raises(UserError, match="segphrase_train of AutoPhrase was not found"):
        run(phrases, store, PhrasesParams(), inputs)


def test_output_of_another_text_is_reported(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program()
    inputs = {"segments": segments_of(store, texts(1, 300)), "labels": list_of(tmp_path, NAMES[::2])}
    found = run(phrases, store, PhrasesParams(), inputs).artifact
    fake(tmp_path / "build", "open('marked.txt', 'w').write('1 2 3\\n')", SEGMENT)
    monkeypatch.setenv(SETTING, str(tmp_path / "build"))
    with pytest.raises(UserError, match="does not match its input: it has 3 words instead"):
        run(phrase_segments, store, PhraseSegmentsParams(), {**inputs, "phrases": found})


SLOW = "print('Loading data...')\nprint('at work in', os.getcwd(), os.getpid())\ntime.sleep(100)"

KILLED = """
import logging, sys
from pathlib import Path
from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.phrases.stage import PhrasesParams, phrases
from tasks.files.raw_input import RawInput
from tests.support.text.phrase_texts import NAMES
from tests.support.text.phrase_texts import list_of
from tests.support.text.phrase_texts import segments_of
from tests.support.text.phrase_texts import texts
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
folder = Path(sys.argv[1])
store = ArtifactStore(folder / "store")
inputs = {"segments": segments_of(store, texts(1, 300)), "labels": list_of(folder, NAMES[::2])}
run(phrases, store, PhrasesParams(), inputs)
"""


def start_and_find(folder: Path) -> tuple[subprocess.Popen[str], Path, int]:
    """A stage running in a process of its own: that process, the program's working folder and id."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), SETTING: str(folder / "build")}
    command = [sys.executable, "-u", "-c", KILLED, str(folder)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "at work in" in line:
            place, pid = line.partition("at work in")[2].split()
            return process, Path(place), int(pid)
    raise AssertionError(f"the stage ended with {process.wait()}")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_folder_is_cleaned_after_a_kill_and_the_stage_restarts(tmp_path: Path) -> None:
    need_program()
    fake(tmp_path / "build", SLOW)
    process, folder, child = start_and_find(tmp_path)
    assert (folder / "text.txt").is_file()
    process.kill()
    process.wait()
    assert folder.is_dir()  # nothing could clean it
    psutil.wait_procs([psutil.Process(child)] if psutil.pid_exists(child) else [], timeout=5)
    store = ArtifactStore(tmp_path / "store")
    inputs = {"segments": segments_of(store, texts(1, 300)), "labels": list_of(tmp_path, NAMES[::2])}
    assert store.latest("phrases") is None
    found = run(phrases, store, PhrasesParams(), inputs).artifact
    assert found.rows() > 0 and not folder.exists()
    assert not list((tmp_path / "store").rglob("run-*"))


def test_killed_program_is_reported_and_the_stage_restarts(tmp_path: Path) -> None:
    need_program()
    fake(tmp_path / "build", SLOW)
    process, folder, child = start_and_find(tmp_path)
    os.kill(child, signal.SIGKILL)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "segphrase_train was killed (SIGKILL)" in said
    assert not folder.exists()
    store = ArtifactStore(tmp_path / "store")
    inputs = {"segments": segments_of(store, texts(1, 300)), "labels": list_of(tmp_path, NAMES[::2])}
    assert run(phrases, store, PhrasesParams(), inputs).artifact.rows() > 0


def test_incomplete_build_of_the_program_is_reported(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path / "build", f"open('{SINGLE_WORD}', 'w').close()")
    monkeypatch.setenv(SETTING, str(tmp_path / "build"))
    inputs = {"segments": segments_of(store, texts(1, 10)), "labels": list_of(tmp_path, NAMES)}
    with pytest.raises(UserError, match="segphrase_train ended without writing final_quality_multi-words"):
        run(phrases, store, PhrasesParams(), inputs)
