"""Flow `compare`: one command that resumes, and a page that is honest about what was not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.training.papers_variants import cells_of, rows_of
from flows.compare import compare
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.evaluate.papers.cell import read_cell
from tests.support.heads import toy_task as toy
from tests.support.text.synthetic_text import write_corpus

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "encode.held_out_share": 0.2,
    "model.num_layers": 1,
    "model.hidden_size": 32,
    "model.intermediate_size": 32,
    "training.warmup_steps": 1,
    "training.evaluate_every": 1000,
    "training.held_out_batches": 1,
    "tuning.epochs": {"12": 1, "all": 1},
    "tuning.learning_rates": [1e-3],
    "tuning.precision": "fp32",
}


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return {
        "data": str(toy.save_cmedqq(tmp_path / "cMedQQ")),
        "corpus": str(write_corpus(tmp_path / "corpus")),
        "seconds": 1.0,
        "more_seconds": 0.5,
        "models": ["random", "bert", "bert-continued"],
        "tasks": ["cmedqq"],
        "sizes": [12, None],
        "seeds": [1, 2],
        "overrides": SMALL,
    }


def table(folder: Path) -> dict[str, dict[str, str]]:
    return {row["Start"]: row for row in json.loads((folder / "table.json").read_text(encoding="utf-8"))}


def one(store: ArtifactStore, stage: str, **params: Any) -> Artifact:
    (found,) = (a for a in store.list(stage) if all(a.manifest.params.get(k) == v for k, v in params.items()))
    return found


def test_page_grows_with_the_work_and_nothing_is_done_twice(
    given: dict[str, Any], work_here: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "flows")
    store = ArtifactStore(tmp_path / "home")
    empty = Path(compare.fn(**given, look=True))
    assert {row["cMedQQ"] for row in table(empty).values()} == {"not run yet"}
    assert "0 of 9 cells and 0 of 2 models were run." in (empty / "table.md").read_text(encoding="utf-8")
    assert not store.list("train")

    none = Path(compare.fn(**given, hours=0.0))
    assert none == empty and "Cell " not in caplog.text  # the time was over before the first cell

    partial = Path(compare.fn(**{**given, "models": ["random", "bert"], "sizes": [12]}))
    assert "not run yet" not in json.dumps(table(partial)["BERT"]["cMedQQ"])
    seen = table(Path(compare.fn(**given, look=True)))
    assert "Cell 1 of 5: random-cmedqq-12" in caplog.text and "Cell 5 of 5: bert-at-0.5-cmedqq-12" in caplog.text
    assert seen["BERT continued"]["cMedQQ"] == "not run yet"
    assert seen["BERT"]["cMedQQ"] == table(partial)["BERT"]["cMedQQ"] and "±" in seen["BERT"]["cMedQQ"]

    whole = Path(compare.fn(**given))
    text = (whole / "table.md").read_text(encoding="utf-8")
    assert "9 of 9 cells and 2 of 2 models were run." in text and "not run yet" not in text
    assert {"records.png", "time.png", "report.html"} <= {file.name for file in whole.iterdir()}
    made = {stage: len(store.list(stage)) for stage in ("encode", "vocabulary", "train", "papers_cell")}
    # The floor, BERT and BERT continued with 12 and with all records, and BERT at three milestones with 12: if a first
    # slow step passes two of these at once, they are one model.
    assert made.pop("papers_cell") in (7, 8, 9) and made == {"encode": 1, "vocabulary": 1, "train": 2}
    assert Path(compare.fn(**given)) == whole
    assert {stage: len(store.list(stage)) for stage in made} == made

    runs = {run.manifest.inputs.get("init") is not None: run for run in store.list("train")}
    assert json.loads(runs[True].read_file("run.json"))["init_from"] == str(runs[False].path)
    for continued, budget in ((False, 1.0), (True, 0.5)):
        rows = runs[continued].to_table("metrics").to_pylist()
        spent = {row["step"]: row["value"] for row in rows if row["name"] == "cpu_seconds"}
        assert budget <= spent[max(spent)] < budget + 1.0
    # Equal treatment: every cell has the same seeds, rate and batch, and differs in nothing but start and records.
    kinds = {
        json.dumps(
            {k: v for k, v in cell.manifest.params.items() if k not in ("random_weights", "train_records", "epochs")}
        )
        for cell in store.list("papers_cell")
    }
    assert len(kinds) == 1
    floor = read_cell(one(store, "papers_cell", random_weights=True, train_records=12))
    assert set(floor.test) == {1, 2} and floor.tallies[1].shape[0] > 1

    beside = rows_of({"whole": cells_of(whole), "partial": cells_of(partial)})
    assert [row[1] for row in beside] == ["whole", "partial"] * 5  # the cells that both have
    assert {row[4] for row in beside if row[1] == "partial"} == {"+0.0"}
    assert all(first[2:4] == second[2:4] for first, second in zip(beside[::2], beside[1::2], strict=True))
    with pytest.raises(UserError, match="there is no page"):
        cells_of(tmp_path)


def test_every_start_has_the_vocabulary_that_is_given(given: dict[str, Any], work_here: None, tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(0x4E00, 0x9FA6)), *map(chr, range(33, 127))]
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    chosen = {"models": ["random", "bert"], "sizes": [12], "seeds": [1], "hours": None}
    compare.fn(**{**given, **chosen, "vocabulary_file": str(file)})
    store = ArtifactStore(tmp_path / "home")
    assert not store.list("vocabulary")
    models = store.list("export")
    assert models and all((one.path / "vocab.txt").read_text(encoding="utf-8").split() == tokens for one in models)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ["bret"]}, "There is no model 'bret' in the comparison. There are random, bert,"),
        ({"models": ["random"]}, "models names no pre-trained model"),
        ({"tasks": ["cmeee"]}, "'cmeee' is not a task of the comparison"),
        ({"data": None}, "No data was given"),
        ({"sizes": [77]}, "tuning.epochs has no number for 77 records"),
        ({"seconds": -1}, "seconds"),
        ({"flops": 1e12}, "^flops and more_flops are .* give both, or neither$"),
        ({"flops": -1.0, "more_flops": 1.0}, "flops"),
        ({"rows": 1}, "rows"),
        ({"vocabulary_file": "absent.txt"}, "absent.txt"),
        ({"cores": 0}, "cores"),
        ({"at_once": 0}, "at_once"),
        ({"overrides": {"tuning.rates": [1e-3]}}, "tuning.rates"),
        ({"overrides": {"training.rate": 1e-3}}, "rate"),
    ],
)
def test_mistakes_are_named_before_any_work(
    changes: dict[str, Any], message: str, given: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        compare.fn(**{**given, **changes})
    assert not (tmp_path / "home").exists()
