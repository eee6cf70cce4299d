"""The fingerprint of a training run: it covers everything that decides its results, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.training.global_batch import share_out
from tasks.pretrain.train import TrainParams, check_training, train
from tasks.training.cluster import Cluster, Workers
from tasks.training.run_spec import RunSpec
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, make_inputs, training


def params(
    model: dict[str, Any] | None = None, workers: Workers = 1, objective: str = "ehealth", **changes: Any
) -> TrainParams:
    cluster = Cluster(workers=workers)
    return TrainParams(
        objective=objective, model=TINY_MODEL | (model or {}), training=training(**changes), cluster=cluster
    )


def name(given: TrainParams) -> str:
    return train.fingerprint(given, {})


@pytest.mark.parametrize(
    "changed",
    [
        {"model": {"checkpoint_activations": True}},
        {"model": {"compile_layers": True}},
        {"parallel": "fsdp2"},
        {"prefetch_batches": 2},
        {"micro_batch_size": 3},
        {"steps": 12.0},
        {"workers": 2},
    ],
)
def test_settings_that_change_only_speed_keep_the_run(changed: dict[str, Any]) -> None:
    given = params(**changed)
    assert name(given) == name(params())
    check_training(given, VOCABULARY)


@pytest.mark.parametrize("changed", [{"model": {"mts_weight": 1.0}}, {"seed": 1}, {"objective": "other"}])
def test_settings_that_change_results_make_another_run(changed: dict[str, Any]) -> None:
    assert name(params(**changed)) != name(params())


def test_micro_batches_and_workers_that_change_the_loss_are_in_the_fingerprint() -> None:
    apart = {"csp_across_micro_batches": False}
    one = params(apart, micro_batch_size=4)
    check_training(one, VOCABULARY)
    assert name(one) != name(params(apart, micro_batch_size=2))
    assert name(one) != name(params(apart, workers=2, micro_batch_size=4))
    assert name(one) == name(params(apart, workers=0, micro_batch_size=4))  # one process as well
    assert name(one) == name(params({**apart, "compile_layers": True}, micro_batch_size=4, prefetch_batches=1))
    without_csp = {**apart, "csp_weight": 0.0}
    check_training(params(without_csp), VOCABULARY)
    assert name(params(without_csp)) == name(params(without_csp, workers=2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (params({"csp_across_micro_batches": False}), r"Set training\.micro_batch_size"),
        (
            params({"csp_across_micro_batches": False}, workers=(1, 2), micro_batch_size=4),
            r"cluster\.workers is \[1, 2\].*Give one number",
        ),
    ],
)
def test_micro_batches_and_workers_that_change_the_loss_must_be_given(given: TrainParams, message: str) -> None:
    with pytest.raises(UserError, match=rf"csp_across_micro_batches=false .*{message}"):
        check_training(given, VOCABULARY)


def refused(given: TrainParams) -> str:
    """What `check_training` says against it; empty if nothing."""
    try:
        check_training(given, VOCABULARY)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("size", range(1, 10))
def test_batches_that_workers_cannot_share_are_refused_before_any_work(size: int) -> None:
    for workers in range(1, 10):
        for cut in (1, 2, 3, None):
            given = params(workers=workers, batch_size=size, micro_batch_size=cut, parallel="fsdp2")
            if workers > size:
                assert f"cluster.workers is {workers}, more than the sequences in a batch ({size})" in refused(given)
                continue
            counts = {len(share) for share in share_out([5] * size, workers, cut)}
            assert ("which fsdp2 cannot share. Make training.batch_size" in refused(given)) == (len(counts) > 1)
            assert not refused(params(workers=workers, batch_size=size, micro_batch_size=cut))
    elastic = params(workers=(1, 2), batch_size=9, micro_batch_size=1, parallel="fsdp2")
    assert "give 2 workers unequal numbers" in refused(elastic)


def test_batch_of_a_task_names_its_own_setting() -> None:
    given = params(workers=4, batch_size=8, tasks={"ehealth": {"batch_size": 3}})
    assert "raise training.tasks.ehealth.batch_size" in refused(given)


@pytest.mark.parametrize("pair_task", ["nsp", "sop"])
def test_table_that_no_input_has_is_named(pair_task: str, store: ArtifactStore) -> None:
    model = {"num_layers": 1, "hidden_size": 24, "num_heads": 2, "intermediate_size": 24, "max_positions": 64}
    given = TrainParams(objective="bert", model=model | {"pair_task": pair_task}, training=training())
    missing = r"reads the table pairs .* none of its inputs \(examples\) has it\. The flow pretrain makes it"
    with pytest.raises(UserError, match=missing):
        run(train, store, given, make_inputs(store))


def test_run_file_of_an_earlier_version_is_read(store: ArtifactStore) -> None:
    examples = make_inputs(store)["examples"]
    old = {
        "name": "run", "storage": "", "store": store.root, "examples": examples.fingerprint, "objective": "ehealth",
        "model": {}, "training": training(), "workers": 1, "cpus_per_worker": 1, "gpu": False,
    }  # fmt: skip
    spec = RunSpec.model_validate_json(json.dumps(old))
    assert spec.sources["examples"].stage == "encode"
    assert spec.sources["examples"].fingerprint == examples.fingerprint
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec
