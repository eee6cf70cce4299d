"""Verbs about a store: what was run, what an artifact is and comes from, what is damaged, what nobody needs."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

import infra.builds.place
import infra.runs
import infra.uses
import yiwen
from flows.api.results import Corpus
from flows.cli import main
from flows.cli.stored.garbage import find_garbage
from infra.artifacts import Artifact, ArtifactStore
from infra.runs import read_runs
from infra.stage import Output, StageInput, StageParams, run, stage
from tasks.finetune.inputs import ModelFolder
from tasks.runner import stage_runner
from tests.support.text.synthetic_text import write_corpus

SMALL = ("--param", "segment.min_tokens=8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with texts and a store in which they were refreshed twice, the second time with other parameters."""
    folder = tmp_path_factory.mktemp("made")
    corpus = write_corpus(folder / "texts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YIWEN_HOME", str(folder / "store"))
        patch.setenv("YIWEN_WORKERS", "1")
        patch.delenv("PREFECT_API_URL", raising=False)
        assert main(["run", "corpus/refresh", "--param", f"corpus={corpus}", "--param", "segment.min_tokens=9"]) == 0
        assert main(["run", "corpus/refresh", "--param", f"corpus={corpus}", *SMALL]) == 0
        yield folder


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that store, to be changed."""
    shutil.copytree(made / "store", tmp_path / "store")
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "store"))
    return tmp_path / "store"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == status
    shown = capsys.readouterr()
    return shown.out if status in (0, 1) else shown.err


def only(home: Path, stage: str) -> Artifact:
    (artifact,) = ArtifactStore(home).list(stage)
    return artifact


def contents(home: Path) -> dict[str, bytes]:
    return {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()}


# plan


def test_plan_reuses_what_a_run_would_and_writes_nothing(
    made: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(home)
    shown = said(capsys, "plan", "corpus/refresh", "--param", f"corpus={made / 'texts'}", *SMALL)
    rows = [line.split() for line in shown.splitlines() if line.split()[1:2] == ["reused"]]
    assert [row[0] for row in rows] == ["ingest", "clean", "deidentify", "deduplicate", "segment", "report_corpus"]
    assert all((home / stage).glob(f"{fingerprint}*") for stage, _, fingerprint, *_ in rows)
    assert "Every stage is reused" in shown
    assert contents(home) == before


def test_plan_has_the_fingerprints_of_the_run_and_says_why(
    made: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--param", f"corpus={made / 'texts'}", "--param", "segment.min_tokens=7"]
    before = contents(home)
    shown = said(capsys, "plan", "corpus/refresh", *given)
    assert contents(home) == before
    planned = {
        line.split()[0]: line.split()[1:3] for line in shown.splitlines() if line.split()[1:2] in (["run"], ["reused"])
    }
    segment = next(line for line in shown.splitlines() if line.startswith("segment"))
    # Both earlier artifacts differ in this alone; the newest is compared.
    assert "min_tokens: 8 → 7" in segment and "~" in segment and "unknown" not in segment
    assert planned["deduplicate"][0] == "reused" and planned["segment"][0] == planned["report_corpus"][0] == "run"
    assert main(["run", "corpus/refresh", *given]) == 0
    for one in read_runs(ArtifactStore(home))[-1].stages:
        assert one.within or planned[one.stage][1] == one.fingerprint[:8]
        assert one.within or planned[one.stage][0] == ("reused" if one.reused else "run")


def test_plan_of_a_training_reaches_its_end_with_an_empty_store(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "none"))
    shown = said(capsys, "plan", "pretrain/ehealth-tiny", "--param", f"corpus={made / 'texts'}")
    states = {line.split()[0]: line.split()[1] for line in shown.splitlines() if "not run before" in line}
    assert list(states)[-3:] == ["encode", "train", "export"] and set(states.values()) == {"run"}
    assert "at an unknown cost" in shown and not (tmp_path / "none").exists()


def test_plan_says_what_has_no_fingerprint_yet(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of word vectors come from a file of a stage that is not there yet."""
    graph = tmp_path / "graph.tsv"
    graph.write_text("胃炎\t症状\t腹痛\n肺炎\t症状\t咳嗽\n", encoding="utf-8")
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "none"))
    graphs = json.dumps({"own": {"path": str(graph), "format": "triples"}})
    shown = said(
        capsys, "plan", "embed/glove-word", "--param", f"corpus={made / 'texts'}", "--param", f"graphs={graphs}"
    )
    segment = next(line for line in shown.splitlines() if line.startswith("segment"))
    assert segment.split()[1:3] == ["unknown", "?"] and "depends on the files of name_dictionary" in segment
    assert not (tmp_path / "none").exists()


def test_plan_knows_a_try_that_was_interrupted(made: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = only(home, "deduplicate")
    shutil.rmtree(home / "deduplicate" / artifact.fingerprint)
    records = home / "deduplicate" / f".{artifact.fingerprint}.partial" / "records"
    records.mkdir(parents=True)
    (records / "00000.json").write_text("{}")
    shown = said(capsys, "plan", "corpus/refresh", "--param", f"corpus={made / 'texts'}", *SMALL)
    line = next(line for line in shown.splitlines() if line.startswith("deduplicate"))
    assert line.split()[1] == "resumed" and "1 part finished" in line


def test_plan_does_not_delete_what_the_run_would(made: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--param", f"corpus={made / 'texts'}", *SMALL, "--param", "keep_raw=false"]
    assert "The run would also delete the content of ingest and clean" in said(capsys, "plan", "corpus/refresh", *given)
    assert ArtifactStore(home).list("ingest")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "corpus/refrsh"], "Did you mean corpus/refresh?"),
        (["plan", "corpus/refresh", "--param", "segment.min_tokenz=3"], "did you mean 'segment.min_tokens'"),
        (["plan", "corpus/refresh", "--param", "corpus=nowhere"], "nowhere does not exist"),
        (["list", "corpus/refrsh"], "Did you mean corpus/refresh?"),
        (["show", "segmnt"], "Did you mean segment?"),
        (["show", "segment/zz"], "has no artifact segment/zz. Those of segment: "),
        (["show", "."], "is not the folder of an artifact"),
        (["show", "memory://nothing/segment/00"], "is not the folder of an artifact"),
        (["lineage", "expotr"], "has no artifact 'expotr'"),
        (["verify", "segment/zz"], "has no artifact segment/zz"),
        (["runs", "--number", "0"], "'--number'"),
        (["gc", "--keep", "-1"], "Invalid value for '--keep'"),
        (["gc", "--spare", "segmnt"], "Did you mean segment?"),
        (
            ["export", "--run", "nope", "--output", "o"],
            "There is no folder nope. Give that of a pre-training run",
        ),
        (["export", "--run", "/dev", "--output", "o"], "error: The folder /dev has no run.json. Give that of a"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(home)
    assert message in said(capsys, *arguments, status=2)
    assert contents(home) == before


@pytest.mark.parametrize("arguments", [["show", "latest"], ["runs"], ["gc"], ["verify"], ["lineage", "latest"]])
def test_store_that_is_not_there_is_named(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "none"))
    assert f"There is no store {tmp_path / 'none'} yet" in said(capsys, *arguments, status=2)
    assert not (tmp_path / "none").exists()


def test_gc_refuses_a_store_without_locks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    store = ArtifactStore("memory://verbs")
    store.filesystem.pipe_file(store.absolute("segment/x/file"), b"x")
    monkeypatch.setenv("YIWEN_HOME", "memory://verbs")
    assert "gc needs the store on a local or mounted disk" in said(capsys, "gc", status=2)
    assert "has no record of a run" in said(capsys, "runs")
    monkeypatch.setenv("YIWEN_HOME", "nosuchscheme://bucket")
    assert "cannot be opened" in said(capsys, "runs", status=2)


# show, lineage, verify


def test_show_says_what_an_artifact_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = only(home, "deduplicate")
    by_name = said(capsys, "show", f"deduplicate/{artifact.fingerprint[:6]}")
    assert by_name == said(capsys, "show", "deduplicate") == said(capsys, "show", f"{artifact.path}/documents")
    lines = by_name.splitlines()
    assert lines[0] == f"deduplicate/{artifact.fingerprint}" and lines[1].strip() == str(artifact.path)
    assert "table     documents: 100 rows" in by_name and "documents_in" in by_name
    assert f"  documents: deidentify {only(home, 'deidentify').fingerprint[:8]}  100 documents" in by_name
    below = lines[lines.index("used by") + 1 :]
    assert [line.split()[0] for line in below] == ["segment", "report_corpus", "segment", "report_corpus"]
    assert f"page      {home}/report_corpus" in said(capsys, "show", "latest")


def test_lineage_is_a_tree_down_to_raw_files(
    made: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(capsys, "lineage", "report_corpus", "--svg", str(tmp_path / "tree.svg"))
    lines = shown.splitlines()
    order = ["report_corpus", "ingest:", "corpus:", "clean:", "documents:"]
    assert [line.lstrip("│├└─ ").split()[0] for line in lines[:5]] == order
    assert f"raw files '{made / 'texts'}' " in lines[2] and "kB" in lines[2]
    assert lines[4].endswith("(as above)"), "clean comes from ingest, which was shown"
    assert "6 artifacts, from 1 input from outside" in shown
    root = ET.fromstring((tmp_path / "tree.svg").read_text(encoding="utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    boxes = [[float(one.attrib[key]) for key in ("x", "y", "width", "height")] for one in root.iter(f"{name}rect")]
    assert len(boxes) == 7 and len([one for one in root.iter(f"{name}text") if one.text]) == 14
    for number, (x, y, wide, high) in enumerate(boxes):
        assert x >= 0 and x + wide <= float(root.attrib["width"]) and y + high <= float(root.attrib["height"])
        for other_x, other_y, other_wide, other_high in boxes[:number]:
            apart = x + wide <= other_x or other_x + other_wide <= x or y + high <= other_y or other_y + other_high <= y
            assert apart, "boxes do not overlap"
    assert f"There is no folder {tmp_path / 'no'}" in said(
        capsys, "lineage", "segment", "--svg", str(tmp_path / "no" / "x.svg"), status=2
    )


def test_deleted_content_keeps_its_place_in_the_lineage(
    made: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--param", f"corpus={made / 'texts'}", *SMALL, "--param", "keep_raw=false"]
    assert main(["run", "corpus/refresh", *given]) == 0
    shown = said(capsys, "lineage", "segment")
    assert "clean" in shown and "100 documents, 0 rejects" in shown and shown.count("content deleted") == 2
    assert "raw files" in shown


def test_verify_finds_a_changed_byte_and_goes_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = said(capsys, "verify")
    assert ", 0 damaged" in whole
    (part,) = (home / "clean" / only(home, "clean").fingerprint / "documents").glob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    manifest = home / "ingest" / only(home, "ingest").fingerprint / "manifest.json"
    manifest.write_text("{", encoding="utf-8")
    capsys.readouterr()
    assert main(["verify"]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("Damaged artifact: ") == 2 and str(part) in shown.err and str(manifest) in shown.err
    assert "2 damaged" in shown.out and whole.split()[0] == shown.out.split()[0]
    assert main(["verify", "clean"]) == 1 and main(["verify", "deidentify"]) == 0
    # What is beside a damaged manifest can still be asked for; that itself is named with the remedy.
    assert "run again; the stage is then recomputed" in said(capsys, "show", "ingest", status=2)
    assert "its manifest is damaged; verify says more" in said(capsys, "lineage", "deduplicate")


# runs, gc


def test_runs_say_when_how_and_what(made: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "runs")
    lines = [line for line in shown.splitlines() if not line.startswith("  ")]
    assert len(lines) == 2 and all("corpus/refresh  finished after" in line for line in lines)
    assert lines[1].endswith("6 stages, 4 reused")
    assert f"corpus={made / 'texts'} segment.min_tokens=8" in shown
    pages = [line.split()[1] for line in shown.splitlines() if line.startswith("  page")]
    assert all(Path(page).is_file() for page in pages)
    assert said(capsys, "runs", "-n", "1").count("corpus/refresh") == 1
    assert "has no record of a run of pretrain" in said(capsys, "runs", "--flow", "pretrain")


def test_failed_run_says_how_to_resume(
    made: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--param", f"corpus={made / 'texts'}", "--param", "segment.min_tokens=600"]
    given += ["--param", "segment.max_tokens=700", "--param", "corpus=a b"]
    (made / "a b").mkdir(exist_ok=True)
    (made / "a b" / "x.txt").write_text("短。", encoding="utf-8")
    monkeypatch.chdir(made)
    error = said(capsys, "run", "corpus/refresh", *given, status=2)
    assert error.splitlines()[-1].endswith(
        "python -m flows run corpus/refresh " + " ".join([*given[:-1], "'corpus=a b'"])
    )
    assert "What was finished is kept. Correct what is wrong, then run again: " in error
    last = read_runs(ArtifactStore(home))[-1]
    assert last.state == "failed" and last.ended is not None and last.ended.error in error


def test_mistake_before_any_work_is_not_resumed(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "visits.csv").write_text("主诉,科室\n胸闷,心内科\n", encoding="utf-8")
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}', encoding="utf-8")
    given = [f"data={tmp_path / 'visits.csv'}", f"model={tmp_path / 'encoder'}", "text_field=主述", "label_field=科室"]
    words = [word for one in given for word in ("--param", one)]
    error = said(capsys, "run", "finetune/classify", *words, status=2)
    assert "has no column '主述'" in error and "run finetune/classify" not in error and "resume" not in error


def test_gc_lists_and_deletes_what_no_kept_run_needs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = said(capsys, "gc")
    assert "can be deleted: the 2 finished runs that are kept may need all that was recorded" in nothing
    assert "is older than 7 days (--days)." in nothing and "Nothing was deleted" not in nothing
    with infra.runs.recording("corpus/refresh", []) as recorder:
        recorder.begin(ArtifactStore(home))
        recorder.end(infra.runs.Ended(outcome="failed", ended=infra.runs.now()))
    before = contents(home)
    listed = said(capsys, "gc", "--keep", "1")
    assert contents(home) == before and "Nothing was deleted" in listed
    assert "2 artifacts and 0 unfinished tries, " in listed
    assert "the 1 finished run and 1 later one without a result that are kept do not need them" in listed
    old, new = ArtifactStore(home).list("segment")
    names = [line.split()[0] for line in listed.splitlines() if "/" in line.split()[0]]
    assert sorted(name.split("/")[0] for name in names) == ["report_corpus", "segment"]
    assert f"segment/{old.fingerprint[:8]}" in names
    spared = said(capsys, "gc", "--keep", "1", "--spare", f"report_corpus/{names[0].split('/')[1]}")
    assert spared.startswith("Nothing in "), "what a page comes from is kept with it"
    assert "Deleted 2 artifacts" in said(capsys, "gc", "--keep", "1", "--delete")
    assert [one.fingerprint for one in ArtifactStore(home).list("segment")] == [new.fingerprint]
    assert said(capsys, "verify").endswith(" 0 damaged\n")
    # Stages that the kept run's stages ran for themselves stay: a refresh reuses them.
    assert ArtifactStore(home).list("sketches")


def test_gc_keeps_artifacts_that_no_record_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(home / ".runs")
    shown = said(capsys, "gc", "--keep", "0")
    assert "no recorded run has used any of it" in shown and "were used by no recorded run" in shown
    assert "segment/" in said(capsys, "gc", "--keep", "0", "--unrecorded")


def test_gc_deletes_nothing_while_a_record_cannot_be_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = sorted((home / ".runs").glob("2*"))[-1]
    (newest / "ended.json").write_text("")
    before = contents(home)
    message = said(capsys, "gc", "--keep", "1", "--delete", status=2)
    assert newest.name in message and "what that run needs is unknown" in message
    assert contents(home) == before


def test_gc_leaves_links_into_other_stores(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = ArtifactStore(home).list("segment")
    other = tmp_path / "other" / old.fingerprint
    shutil.move(home / "segment" / old.fingerprint, other)
    (home / "segment" / old.fingerprint).symlink_to(other)
    before = {str(file): file.read_bytes() for file in other.rglob("*") if file.is_file()}
    said(capsys, "gc", "--keep", "1", "--delete")
    assert before and before == {str(file): file.read_bytes() for file in other.rglob("*") if file.is_file()}


def test_gc_keeps_what_a_run_used_after_it_had_looked(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = ArtifactStore(home).list("segment")
    read, looks = infra.runs.read_runs, iter(range(9))

    def read_as_if_one_ended_meanwhile(store: ArtifactStore, strict: bool = False) -> list[infra.runs.RunRecord]:
        found = read(store, strict)
        return found if next(looks) == 0 else [*found[1:], found[0]]

    monkeypatch.setattr(infra.runs, "read_runs", read_as_if_one_ended_meanwhile)
    said(capsys, "gc", "--keep", "1", "--delete")
    assert [one.fingerprint for one in ArtifactStore(home).list("segment")] == [old.fingerprint]


def test_gc_leaves_what_a_living_process_writes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("alive", "dead"):
        folder = home / "segment" / f".{name}.partial"
        (folder / "scratch").mkdir(parents=True)
        (folder / "scratch" / "state").write_text("x")
        (folder / "lock").touch()
    with (home / "segment" / ".alive.partial" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "no unfinished try is older than 7 days" in said(capsys, "gc")
        capsys.readouterr()
        assert main(["gc", "--days", "0", "--keep", "0", "--delete"]) == 0
        shown = capsys.readouterr()
    assert "Deleted 0 artifacts and 1 unfinished try." in shown.out and "a run is going on" in shown.err
    assert (home / "segment" / ".alive.partial" / "scratch" / "state").exists()
    assert not (home / "segment" / ".dead.partial").exists()


def test_gc_keeps_what_a_living_process_has_opened(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = next(one for one in ArtifactStore(home).list("segment") if one.manifest.params["min_tokens"] == 9)
    monkeypatch.setattr(infra.uses, "_marks", {})
    Corpus.at(str(old.path))  # as a session of Python has it; its stages are those of the other one, too
    shown = said(capsys, "gc", "--keep", "1", "--delete")
    assert "1 artifact is open in a service, a session or a prediction, and is kept" in shown
    assert "report_corpus/" in shown and "Deleted 1 artifact and" in shown and Path(old.path).is_dir()
    for held in infra.uses._marks.values():
        held.close()
    assert "Deleted 1 artifact and" in said(capsys, "gc", "--keep", "1", "--delete")
    assert not Path(old.path).is_dir()


def test_gc_keeps_the_encoder_of_a_model_that_is_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fine-tuned model records its encoder by the content of the folder, and may read knowledge beside that."""
    store = ArtifactStore(home)
    exported = made_of(store, "export", {"config.json": b"{}"}, {})
    folder = ModelFolder(str(exported.path))
    tuned = made_of(store, "finetune", {"model/config.json": b"{ }"}, {"model": folder})
    kept = [f"{tuned.stage}/{tuned.fingerprint}"]
    found = find_garbage(store, read_runs(store), 0, 7, kept, unrecorded=True)
    assert {one.stage for one in found.artifacts}.isdisjoint({"export", "finetune"})
    without = find_garbage(store, read_runs(store), 0, 7, unrecorded=True)
    assert {one.stage for one in without.artifacts} >= {"export", "finetune"}


def made_of(store: ArtifactStore, name: str, files: dict[str, bytes], inputs: dict[str, StageInput]) -> Artifact:
    """Return an artifact of a stage that writes the given files."""

    def write(given: object, params: StageParams, out: Output) -> None:
        for path, data in files.items():
            out.add_bytes(path, data)

    return run(stage(name=name, version=1, params=StageParams)(write), store, StageParams(), inputs).artifact


def test_gc_counts_only_what_it_could_delete(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = shutil.rmtree

    def refuse(folder: str, ignore_errors: bool = False) -> None:
        if "/segment/" not in str(folder):
            deleted(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(infra.builds.place.shutil, "rmtree", refuse)
    assert main(["gc", "--keep", "1", "--delete"]) == 0
    shown = capsys.readouterr()
    assert "Deleted 1 artifact and" in shown.out
    assert "cannot be deleted whole" in shown.err and str(home / "segment") in shown.err


def test_runs_of_python_are_recorded(made: Path, home: Path) -> None:
    with yiwen.configure(home=home, workers=1, progress=False):
        yiwen.corpus.refresh(corpus=made / "texts", overrides={"segment.min_tokens": 8})
        with pytest.raises(yiwen.UserError):
            yiwen.corpus.refresh(corpus=made / "texts", overrides={"segment.min_tokens": 8, "ingest.text_field": 3})
        with pytest.raises(ZeroDivisionError), stage_runner():
            _ = 1 / 0
    *_, run, script = read_runs(ArtifactStore(home))
    assert (run.begun.flow, run.state) == ("yiwen.corpus.refresh", "finished")
    assert f'corpus="{made / "texts"}"' in run.begun.given and "segment" in [one.stage for one in run.stages]
    assert run.ended is not None and Path(run.ended.result).is_dir()
    assert (script.begun.flow, script.state) == ("python", "failed")


def test_gc_deletes_no_artifact_while_a_recorded_run_goes_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    descriptor = os.open(home / ".runs" / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        assert "Deleted 0 artifacts" in said(capsys, "gc", "--keep", "0", "--delete")
    finally:
        os.close(descriptor)
    assert "Deleted 11 artifacts" in said(capsys, "gc", "--keep", "0", "--delete")
