"""Cards of fine-tuned models as a hub reads them: licence, language, data, and scores as the model index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from tasks.downstream.catalogue import task
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams, Resources
from tasks.finetune.stage import finetune
from tasks.training.front_matter import Measured, with_front_matter
from tests.support.heads import toy_task as toy


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("cards")
    toy.save_cmedqq(folder / "data", (16, 8, 8))
    params = FinetuneParams(
        task="cmedqq", seeds=(1,), batch_sizes=(8,), learning_rates=(5e-3,), epochs=(1,), resources=Resources()
    )
    inputs: dict[str, Any] = {
        "model": ModelFolder(toy.save_toy_encoder(folder / "toy-encoder")),
        "data": TaskFiles(task("cmedqq"), folder / "data"),
    }
    return run(finetune, ArtifactStore(folder / "store"), params, inputs).artifact


def test_card_has_the_scores_as_its_model_index(tuned: Artifact) -> None:
    card = ModelCard.load(Path(tuned.path) / "model" / "README.md")
    assert (card.data.language, card.data.library_name) == ("zh", "transformers")
    assert card.data.pipeline_tag == "text-classification" and card.data.base_model is None
    assert card.data.model_name == "cmedqq from toy-encoder"
    rows = tuned.to_table("scores").to_pylist()
    own = {(row["split"], row["metric"]): row["value"] for row in rows if row["of"] == "best run"}
    found = {(one.dataset_split, one.metric_type): one.metric_value for one in card.data.eval_results or []}
    assert found == pytest.approx(own, abs=1e-6) and len(found) >= 2
    assert {one.dataset_name for one in card.data.eval_results or []} == {"cMedQQ"}
    for text in ("16 of train, 8 of dev, 8 of test", "## Licence", "## Limits", "not looked for", "pipeline("):
        assert text in card.content


def test_figures_that_are_no_numbers_are_left_out() -> None:
    measured = [Measured("dev", "pair_score", float("inf")), Measured("dev", "accuracy", 0.25)]
    text = with_front_matter(
        "# A card\n", name="x: [y", tags=["a: b"], library="yiwen", licence="mit", data=("d", "D"), measured=measured
    )
    card = ModelCard(text)
    assert [(one.metric_type, one.metric_value) for one in card.data.eval_results or []] == [("accuracy", 0.25)]
    assert card.data.model_name == "x: [y" and card.data.tags == ["a: b"] and card.data.license == "mit"
    assert card.text.strip() == "# A card"
    bare = ModelCard(with_front_matter("# A card\n", name="x", tags=[], library="yiwen"))
    assert bare.data.eval_results is None and bare.data.license is None
