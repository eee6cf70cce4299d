"""Fine-tuning from official files to scores, on a toy encoder and synthetic data: learns, resumes, keeps the best."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import run
from tasks.downstream.catalogue import task
from tasks.downstream.records import Entity, Triple
from tasks.downstream.spec import Grid
from tasks.finetune.compare import compare_runs, open_run
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams, Resources, settings_of
from tasks.finetune.predict import Predictor
from tasks.finetune.prediction.rows import answer_from_json
from tasks.finetune.stage import finetune, make_trials
from tasks.finetune.trials import grid as finetune_grid
from tasks.finetune.trials.checkpoint import CHECKPOINT
from tasks.finetune.trials.grid import best_run, still_wanted
from tasks.finetune.trials.model import load_start
from tasks.finetune.trials.result import RESULT, TrialResult, read_result
from tasks.finetune.trials.run import Listener, run_trial
from tasks.finetune.trials.task_trial import TaskTrial
from tasks.finetune.trials.trial import Trial
from tasks.reports.finetune import ReportFinetuneParams, report_finetune
from tasks.reports.suite import ReportSuiteParams, report_suite
from tests.support.heads import toy_task as toy

torch.set_num_threads(1)


@dataclass(frozen=True)
class World:
    store: ArtifactStore
    encoder: Path
    data: Path

    def run(self, name: str, **changes: Any) -> Artifact:
        params = FinetuneParams(**{"task": name, **SMALL, **changes})
        inputs = {"model": ModelFolder(self.encoder), "data": TaskFiles(task(name), self.data / name)}
        return run(finetune, self.store, params, inputs).artifact


SMALL: dict[str, Any] = {
    "seeds": (1,),
    "batch_sizes": (8,),
    "learning_rates": (5e-3,),
    "epochs": (6,),
    "resources": Resources(trials_at_once=1),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    toy.save_cmeee(folder / "data" / "cmeee")
    toy.save_cmeie(folder / "data" / "cmeie")
    toy.save_cmedqq(folder / "data" / "cmedqq")
    return World(ArtifactStore(folder / "store"), toy.save_toy_encoder(folder / "encoder"), folder / "data")


@pytest.fixture(scope="module")
def tagging(world: World) -> Artifact:
    return world.run("cmeee")


@pytest.fixture(scope="module")
def pairs(world: World) -> Artifact:
    return world.run("cmedqq", seeds=(1, 2), epochs=(1, 4))


def main_score(artifact: Artifact, split: str = "dev") -> float:
    rows = artifact.scan("scores").filter((pl.col("of") == "best run") & pl.col("main")).collect()
    return float(rows.filter(pl.col("split") == split)["value"][0])


def test_nested_entities_are_learnt_and_handed_in(world: World, tagging: Artifact) -> None:
    assert main_score(tagging) > 0.9
    rows = tagging.scan("predictions").filter(pl.col("split") == "test").collect()
    assert len(rows) == 8 and rows["gold"].is_null().all() and rows["correct"].is_null().all()
    submission = json.loads(tagging.read_file("CMeEE_test.json"))
    for row, official in zip(rows.to_dicts(), submission, strict=True):
        entities = answer_from_json(task("cmeee").kind, row["answer"])
        assert official["text"] == row["texts"][0]
        assert {(e["start_idx"], e["end_idx"] + 1, e["type"]) for e in official["entities"]} == {
            (e.start, e.end, e.type) for e in entities if isinstance(e, Entity)
        }


def test_triples_are_learnt_with_their_types(world: World) -> None:
    artifact = world.run("cmeie", epochs=(30,), batch_sizes=(12,))
    assert main_score(artifact) > 0.8
    row = artifact.scan("predictions").filter(pl.col("correct")).head(1).collect().to_dicts()[0]
    (triple,) = answer_from_json(task("cmeie").kind, row["answer"])
    assert isinstance(triple, Triple)
    assert (triple.subject_type, triple.predicate, triple.object_type) == ("疾病", "临床表现", "症状")
    assert len(row["scores"]) == 1 and row["scores"][0] > 0.5
    assert artifact.read_file("CMeIE_test.jsonl").count(b"\n") == 8


def test_the_best_seed_of_the_best_setting_is_kept(pairs: Artifact) -> None:
    trials = pairs.scan("scores").filter((pl.col("of") == "trial") & pl.col("main") & (pl.col("split") == "dev"))
    rows = trials.collect()
    assert len(rows) == 4 and rows["best"].sum() == 1
    means = rows.group_by("epochs").agg(pl.col("value").mean()).sort("value", descending=True)
    best = rows.filter(pl.col("best")).to_dicts()[0]
    assert means.filter(pl.col("epochs") == best["epochs"])["value"][0] == means["value"][0]
    assert best["value"] == rows.filter(pl.col("epochs") == best["epochs"])["value"].max()
    assert main_score(pairs) == pytest.approx(best["value"])
    content = json.loads(pairs.read_file("trials.json"))
    assert [len(one["curve"]) for one in content["trials"]] == [1, 1, 4, 4]
    assert {record.path.split("/")[0] for record in pairs.manifest.files} == {"model", "trials.json"}


def test_scores_have_intervals_and_are_those_of_the_predictions(pairs: Artifact) -> None:
    rows = pairs.scan("scores").filter(pl.col("of") == "best run").collect().to_dicts()
    assert {(row["split"], row["metric"]) for row in rows} == {
        (split, metric) for split in ("dev", "test") for metric in ("positive_f1", "accuracy")
    }
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"]
        if row["metric"] == "accuracy":
            predictions = pairs.scan("predictions").filter(pl.col("split") == row["split"]).collect()
            assert row["value"] == pytest.approx(predictions["correct"].mean())
            assert all(abs(sum(scores) - 1) < 1e-5 for scores in predictions["scores"])


def test_the_saved_model_predicts_alone(pairs: Artifact, tmp_path: Path) -> None:
    folder = pairs.download(tmp_path / "elsewhere", "model")
    predictor = Predictor(folder, device="cpu")
    rows = pairs.scan("predictions").filter(pl.col("split") == "dev").collect().to_dicts()
    found = predictor.predict([row["texts"] for row in rows])
    assert [json.dumps(one.answer) for one in found] == [row["answer"] for row in rows]
    for one, row in zip(found, rows, strict=True):
        assert one.scores == pytest.approx(row["scores"], abs=1e-5)
    assert AutoModel.from_pretrained(folder).config.hidden_size == 32
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "cMedQQ" in card and f"| dev | positive_f1 | {100 * main_score(pairs):.2f} |" in card


RUN = """
import sys
from tests.tasks.finetune.test_stage import SLOW
from tests.tasks.finetune.test_stage import World
from infra.artifacts import ArtifactStore
from pathlib import Path
store, encoder, data = sys.argv[1:]
World(ArtifactStore(store), Path(encoder), Path(data)).run("cmedqq", **SLOW)
"""

SLOW: dict[str, Any] = {"seeds": (1, 2), "epochs": (1, 40), "limit": 8}


def is_whole(result: Path) -> bool:
    """Return False for a result that is being written: such a trial is repeated after a kill."""
    try:
        return bool(json.loads(result.read_bytes()))
    except ValueError:
        return False


def test_trials_finished_by_a_killed_run_are_not_repeated(world: World, tmp_path: Path, monkeypatch: Any) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path), str(world.encoder), str(world.data)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    while len(finished := {path.parent.name for path in tmp_path.rglob("trials/*/result.json") if is_whole(path)}) < 2:
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    child.kill()
    child.wait()
    done: list[str] = []

    def counted(one: Trial, *listeners: Any) -> TrialResult:
        done.append(one.name)
        return run_trial(one, *listeners)

    monkeypatch.setattr(finetune_grid, "run_trial", counted)
    artifact = World(ArtifactStore(tmp_path), world.encoder, world.data).run("cmedqq", **SLOW)
    assert done and not finished & set(done) and len(finished | set(done)) == 4
    whole = world.run("cmedqq", **SLOW)
    assert artifact.to_table("predictions").equals(whole.to_table("predictions"))
    assert artifact.to_table("scores").equals(whole.to_table("scores"))


class Killed(Exception):
    pass


def one_trial(world: World, storage: Path) -> Trial:
    params = FinetuneParams(task="cmedqq", **{**SMALL, "epochs": (4,)})
    files = TaskFiles(task("cmedqq"), world.data / "cmedqq")
    (trial,) = make_trials(task("cmedqq"), params, ModelFolder(world.encoder), files, str(storage))
    return trial


@pytest.mark.parametrize("folder", ["model", "data"])
def test_missing_folder_error_names_the_remedy(folder: str, world: World, tmp_path: Path) -> None:
    trial = one_trial(world, tmp_path).model_copy(update={folder: str(tmp_path / "absent")})
    with pytest.raises(UserError, match=r"absent does not exist on .*shared file system"):
        run_trial(trial)


def kill_after(trial: Trial, epochs: int) -> list[float]:
    """Kill the trial after a number of epochs, once the next one is scored; return the reported epochs."""
    reported: list[float] = []

    def listen(epoch: float, best: float) -> None:
        reported.append(epoch)
        if epoch > epochs:
            raise Killed

    with pytest.raises(Killed):
        run_trial(trial, listen)
    return reported


def outcome(result: TrialResult) -> dict[str, Any]:
    return result.model_dump(exclude={"trial", "seconds", "sequences_per_second"})


def test_killed_trial_resumes_after_its_last_whole_epoch(world: World, tmp_path: Path) -> None:
    whole, killed = one_trial(world, tmp_path / "whole"), one_trial(world, tmp_path / "killed")
    expected = run_trial(whole)
    kill_after(killed, 2)
    assert [path.name for path in Path(killed.folder).iterdir()] == [CHECKPOINT]
    reported: list[float] = []
    found = run_trial(killed, lambda epoch, best: reported.append(epoch))
    assert reported == [3.0, 4.0] and outcome(found) == outcome(expected)
    for name in ("model.safetensors", "head.safetensors"):
        assert (Path(killed.folder) / "model" / name).read_bytes() == (Path(whole.folder) / "model" / name).read_bytes()
    assert {path.name for path in Path(killed.folder).iterdir()} == {"model", "result.json"}


@pytest.mark.parametrize("damage", ["cut", "another seed"])
def test_unusable_checkpoint_is_logged_and_ignored(
    damage: str, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trial = one_trial(world, tmp_path)
    kill_after(trial, 1)
    file = Path(trial.folder) / CHECKPOINT
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        other = trial.model_copy(update={"seed": 2})
        file = file.rename(tmp_path / CHECKPOINT)
        Path(other.folder).mkdir()
        file.rename(Path(other.folder) / CHECKPOINT)
        trial = other
    reported: list[float] = []
    run_trial(trial, lambda epoch, best: reported.append(epoch))
    assert reported == [1.0, 2.0, 3.0, 4.0] and "starts over" in caplog.text


SEVERAL: dict[str, Any] = {"seeds": (1, 2), "epochs": (1, 4), "resources": Resources(trials_at_once=2)}


@pytest.mark.ray
def test_trials_of_ray_tune_give_the_same_results_though_their_processes_are_killed(
    world: World, pairs: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    deaths = {"b8-lr0.005-e4-s1": [2], "b8-lr0.005-e4-s2": [1, 3]}

    def dying(trial: Trial, listen: Listener) -> TrialResult:
        before = len(list(log.glob(f"{trial.name}.*")))

        def listen_and_die(epoch: float, best: float) -> None:
            with (log / f"{trial.name}.{before}").open("a") as reported:
                reported.write(f"{epoch:.0f}")
            listen(epoch, best)
            # Epoch n is reported before it is stored, so a process that dies in it leaves n - 1.
            if before < len(deaths.get(trial.name, [])) and epoch > deaths[trial.name][before]:
                os.kill(os.getpid(), signal.SIGKILL)

        return run_trial(trial, listen_and_die)

    # A worker gets this function by value, and imports the module itself.
    def mortal(kind: type[Trial], config: dict[str, Any]) -> None:
        from tasks.finetune.trials import grid as finetune_grid

        with patch.object(finetune_grid, "run_trial", dying):
            finetune_grid._tune_trial(kind, config)

    log.mkdir()
    again = World(ArtifactStore(tmp_path / "store"), world.encoder, world.data)
    with (
        patch.object(finetune_grid, "_tune_trial", mortal),
        pytest.raises(RuntimeError, match=r"failed twice: b8-lr0\.005-e4-s2\. .*Run the same command again"),
    ):
        again.run("cmedqq", **SEVERAL)
    assert {path.name: path.read_text() for path in log.iterdir()} == {
        "b8-lr0.005-e1-s1.0": "1",
        "b8-lr0.005-e1-s2.0": "1",
        "b8-lr0.005-e4-s1.0": "123",
        "b8-lr0.005-e4-s1.1": "34",
        "b8-lr0.005-e4-s2.0": "12",
        "b8-lr0.005-e4-s2.1": "234",
    }
    reported: list[tuple[str, float]] = []

    def here(trial: Trial, listen: Listener) -> TrialResult:
        def both(epoch: float, best: float) -> None:
            reported.append((trial.name, epoch))
            listen(epoch, best)

        return run_trial(trial, both)

    monkeypatch.setattr(finetune_grid, "run_trial", here)
    artifact = again.run("cmedqq", **SEVERAL)
    assert artifact.fingerprint == pairs.fingerprint
    assert reported == [("b8-lr0.005-e4-s2", 4.0)]
    for table in ("scores", "predictions"):
        assert artifact.to_table(table).equals(pairs.to_table(table))
    weights = ("model/model.safetensors", "model/head.safetensors")
    assert [artifact.read_file(name) for name in weights] == [pairs.read_file(name) for name in weights]


def test_page_shows_scores_curves_and_mistakes(world: World, tagging: Artifact, pairs: Artifact) -> None:
    for artifact, reported in (
        (tagging, ("CMeEE", "Longest misses", "sym", "dis")),
        (pairs, ("cMedQQ", "Surest mistakes")),
    ):
        report = run(report_finetune, world.store, ReportFinetuneParams(), {"run": artifact}).artifact
        page = report.read_file("report.html").decode()
        assert all(words in page for words in reported)
        table = json.loads(report.read_file("table.json"))
        assert table[0]["score"] == f"{100 * main_score(artifact):.2f}"


def test_a_suite_is_one_table_beside_the_published_rows(world: World, tagging: Artifact) -> None:
    names = ("cmeee", "cmeie", "chip-cdn", "chip-ctc", "chip-sts", "kuake-qic", "kuake-qtr", "kuake-qqr")
    params = ReportSuiteParams(title="cblue", model="toy", tasks=names)
    artifact = run(report_suite, world.store, params, {"cmeee": tagging}).artifact
    table = json.loads(artifact.read_file("table.json"))
    reported = {(row["model"], row["from"]): list(row.values())[2:] for row in table}
    assert reported["eHealth-base", "published: eHealth, Table 4"] == [
        "67.0",
        "61.6",
        "71.2",
        "70.5",
        "86.2",
        "87.4",
        "63.5",
        "85.5",
        "74.1",
    ]
    own = table[-1]
    assert (own["model"], own["from"]) == ("toy", "measured here") and own[
        "CMeEE test"
    ] == f"{100 * main_score(tagging):.1f} (dev)"
    assert set(list(own.values())[3:]) == {"–"}
    assert "submission.zip" in {record.path for record in artifact.manifest.files}


def test_two_encoders_are_compared_on_the_same_records(world: World, tagging: Artifact, pairs: Artifact) -> None:
    other = world.run("cmedqq", epochs=(1,), learning_rates=(1e-6,))
    found = compare_runs(open_run(f"{pairs.path}/model"), open_run(other.path))
    assert found["records"] == 16 and 0 < found["p_value"] <= 1
    assert found["difference"] == pytest.approx(main_score(pairs) - main_score(other))
    assert found["low"] <= found["difference"] <= found["high"]
    with pytest.raises(UserError, match="Only runs of the same task"):
        compare_runs(pairs, tagging)
    with pytest.raises(UserError, match="is not a run of fine-tuning or a trained normaliser"):
        open_run(world.encoder)


STOPPED = st.sampled_from(["finished", "finished", "diverged"])


def result(setting: tuple[int, float, int], seed: int, score: float, stopped: str = "finished") -> TrialResult:
    batch_size, rate, epochs = setting
    trial = TaskTrial(
        task="t", model="m", data="d", data_version="v", storage="s",
        batch_size=batch_size, learning_rate=rate, epochs=epochs, seed=seed,
    )  # fmt: skip
    return TrialResult(
        trial=trial, score=score, epoch=1, dev={}, test={}, curve=[], stopped=stopped, seconds=1,
        sequences_per_second=1, counters={},
    )  # fmt: skip


def test_a_lucky_seed_does_not_choose_the_setting() -> None:
    good, lucky = (8, 1e-4, 2), (16, 1e-4, 2)
    results = [result(lucky, 1, 0.9), result(lucky, 2, 0.1), result(good, 1, 0.7), result(good, 2, 0.8)]
    assert best_run(results).score == 0.8


@given(st.data())
def test_the_best_runs_weights_are_never_dropped(data: st.DataObject) -> None:
    seeds = data.draw(st.integers(1, 3))
    results = [
        result((8, 1e-4, epochs), seed, data.draw(st.sampled_from([0.1, 0.2, 0.3, 0.9])), data.draw(STOPPED))
        for epochs in range(1, 5)
        for seed in range(seeds)
    ]
    trials = [one.trial for one in results]
    finished: list[TrialResult] = []
    stored: set[str] = set()
    for one in data.draw(st.permutations(results)):
        finished = [known for known in results if known in finished or known is one]
        stored = (stored | {one.trial.name}) & still_wanted(trials, finished)
        assert len(stored) <= 4
    if all(one.stopped == "diverged" for one in results):
        with pytest.raises(UserError, match="The loss became NaN or infinite in every trial"):
            best_run(results)
    else:
        assert stored == {best_run(results).trial.name}


def test_diverged_trial_does_not_stop_the_others(world: World) -> None:
    artifact = world.run("cmedqq", learning_rates=(1e30, 5e-3), epochs=(2,), ema_decay=None)
    trials = json.loads(artifact.read_file("trials.json"))
    assert {one["name"]: one["stopped"] for one in trials["trials"]} == {
        "b8-lr1e+30-e2-s1": "diverged",
        "b8-lr0.005-e2-s1": "finished",
    }
    assert trials["best"] == "b8-lr0.005-e2-s1"
    run(report_finetune, world.store, ReportFinetuneParams(), {"run": artifact})
    with pytest.raises(UserError, match=r"Lower finetune\.learning_rates"):
        world.run("cmedqq", learning_rates=(1e30,), epochs=(2,), ema_decay=None)


def test_trial_stops_when_dev_scores_no_longer_improve(world: World) -> None:
    artifact = world.run("cmedqq", epochs=(30,), patience=2, learning_rates=(1e-7,))
    (trial,) = json.loads(artifact.read_file("trials.json"))["trials"]
    assert trial["stopped"] == "patience" and len(trial["curve"]) < 30


def test_flat_tagging_with_a_field_and_a_type_that_training_does_not_know(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "cmedqaner"
    folder.mkdir()
    for seed, split in enumerate(("train", "dev", "test")):
        rows = []
        for row in toy.tagged(40 if split == "train" else 10, seed):
            (_, entity) = row["entities"]
            mention = {"mention": entity["entity"], "offset": entity["start_idx"], "type": "sym"}
            rows.append({"text": row["text"], "mention_data": [mention]})
        if split == "dev":
            rows[0]["mention_data"][0]["type"] = "unheard-of"
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{split}.json").write_text(lines, encoding="utf-8")
    other = World(world.store, world.encoder, tmp_path)
    artifact = other.run("cmedqaner", crf=True, epochs=(8,))
    assert artifact.manifest.counters["dev_labels_unseen_in_train"] == 1
    assert json.loads(artifact.read_file("trials.json"))["unseen"] == {"unheard-of": 1}
    assert main_score(artifact, "test") > 0.8 and 0.7 < main_score(artifact) < 1
    assert b"crf" in artifact.read_file("model/head.json")


@pytest.fixture(scope="module")
def other_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.save_other_kinds(tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("cmedic", {"0", "1", "2"}),
        ("webmedqa", {"0", "1"}),
        ("nlpec", {0, 1, 2}),
        ("cmedir", {"0", "1", "2", "3", "4"}),
        ("disease-diagnosis", None),
    ],
)
def test_every_other_kind_goes_from_files_to_a_page(
    name: str, answers: set[Any] | None, world: World, other_kinds: Path
) -> None:
    artifact = World(world.store, world.encoder, other_kinds).run(name, epochs=(1,))
    rows = artifact.scan("predictions").filter(pl.col("split") == "dev").collect().to_dicts()
    assert len(rows) >= 9
    if answers is not None:
        assert {json.loads(row["answer"]) for row in rows} <= answers
    if name == "webmedqa":  # one answer a question is right, and P@1 is the share of questions where it is the true one
        chosen = [row for row in rows if json.loads(row["answer"]) == "1"]
        assert len(chosen) == len({row["group"] for row in rows}) == 3
        assert main_score(artifact) == pytest.approx(sum(row["correct"] for row in chosen) / 3)
    if name == "cmedir":
        grades = [sum(n * p for n, p in enumerate(row["scores"])) for row in rows]
        assert [row["value"] for row in rows] == pytest.approx(grades)
    report = run(report_finetune, world.store, ReportFinetuneParams(), {"run": artifact}).artifact
    assert task(name).title in report.read_file("report.html").decode()


def test_infinite_score_is_written_and_read(tmp_path: Path) -> None:
    one = result((8, 1e-4, 1), 1, math.inf)
    one.trial = one.trial.model_copy(update={"storage": str(tmp_path)})
    Path(one.trial.folder).mkdir()
    (Path(one.trial.folder) / RESULT).write_text(one.model_dump_json())
    assert read_result(one.trial) == one


def test_quick_is_one_setting_of_the_grid() -> None:
    grid = Grid((8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8), "here")
    assert settings_of(grid, quick=True) == [(32, 6e-5, 2)]
    assert len(settings_of(grid)) == 27


def test_random_weights_forget_the_encoder(world: World) -> None:
    files = TaskFiles(task("cmedqq"), world.data / "cmedqq")
    for random_weights in (False, True):
        params = FinetuneParams(**{"task": "cmedqq", **SMALL, "random_weights": random_weights})
        (trial,) = make_trials(task("cmedqq"), params, ModelFolder(world.encoder), files, "unused")
        assert trial.random_weights == random_weights
        weights = load_start(trial).encoder.embeddings.word.weight.detach().numpy()
        expected = AutoModel.from_pretrained(world.encoder).embeddings.word_embeddings.weight.detach().numpy()
        assert np.allclose(weights, expected) != random_weights


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 100}, "more than the encoder's 64 positions"),
        ({"max_length": 4}, "leaves no room"),
        ({"crf": True}, "crf is only for tagging"),
        ({"pooling": "mean", "network": "cnn"}, "pooling is for one answer per text, not for a network"),
    ],
)
def test_impossible_settings_are_rejected(changes: dict[str, Any], message: str, world: World) -> None:
    with pytest.raises(UserError, match=message):
        world.run("cmedqq", **changes)


def test_the_mean_of_the_tokens_can_answer_where_a_text_has_one_answer(
    world: World, pairs: Artifact, tmp_path: Path
) -> None:
    artifact = world.run("cmedqq", seeds=(1,), epochs=(4,), pooling="mean")
    assert json.loads(artifact.read_file("model/head.json"))["pooling"] == "mean"
    assert json.loads(pairs.read_file("model/head.json"))["pooling"] == "cls"
    rows = artifact.scan("predictions").filter(pl.col("split") == "dev").collect()
    found = Predictor(artifact.download(tmp_path / "mean", "model"), device="cpu").predict(rows["texts"].to_list())
    assert [json.dumps(one.answer) for one in found] == rows["answer"].to_list()
    other = pairs.scan("predictions").filter(pl.col("split") == "dev").collect()
    assert rows["scores"].to_list() != other["scores"].to_list()
    with pytest.raises(UserError, match="pooling is for one answer per text, not for CMeEE"):
        world.run("cmeee", pooling="mean")


def test_missing_models_and_files_are_rejected(world: World, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no folder"):
        ModelFolder(tmp_path / "absent")
    with pytest.raises(UserError, match=r"has no config\.json"):
        ModelFolder(tmp_path)
    with pytest.raises(UserError, match="has no file of CMeEE"):
        TaskFiles(task("cmeee"), tmp_path)


def test_a_model_card_does_not_change_the_fingerprint(world: World, tmp_path: Path) -> None:
    folder = toy.save_toy_encoder(tmp_path / "encoder")
    before = ModelFolder(folder).fingerprint
    assert before == ModelFolder(world.encoder).fingerprint
    (folder / "README.md").write_text("card")
    assert ModelFolder(folder).fingerprint == before
    (folder / "vocab.txt").write_text("other")
    assert ModelFolder(folder).fingerprint != before
