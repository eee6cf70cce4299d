"""ELECTRA's objective: losses of transformers' own classes on the same samples, isolation of gradients, exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining

from models.export import save_pretrained
from models.objectives import build
from models.objectives.parts.noise import StepNoise
from models.tokenizer.special_ids import MASK
from tests.support.training.token_rows import TINY, random_rows

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def electra(**options: Any) -> Any:
    torch.manual_seed(0)
    objective = build("electra", {**TINY, **NO_DROPOUT, **options})
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return objective


def test_losses_are_those_of_transformers_on_the_same_samples(tmp_path: Path) -> None:
    """Both networks as transformers runs them, sequence by sequence; the samples are read from ours."""
    objective = electra(rtd_weight=7.0)
    batch = objective.collate(random_rows([20, 9, 31]), seed=3, step=1)
    found = objective(batch)
    save_pretrained(objective, tmp_path / "generator", "generator")
    save_pretrained(objective, tmp_path / "discriminator", "pre_training")
    generator = AutoModelForMaskedLM.from_pretrained(tmp_path / "generator").eval()
    discriminator = AutoModelForPreTraining.from_pretrained(tmp_path / "discriminator").eval()

    hidden = objective.generator(batch.input_ids, batch.layout).index_select(0, batch.selected)
    uniforms = StepNoise(batch, training=True).uniforms(1)
    table = objective.discriminator.embeddings.word.weight
    sample = objective.generator_head(hidden, table, batch.original, uniforms).sample
    corrupted = batch.input_ids.clone()
    corrupted[batch.selected] = sample
    labels = torch.zeros(batch.tokens).index_copy(0, batch.selected, (sample != batch.original).float())
    logits, detected = [], []
    for masked, read in zip(
        batch.input_ids.split(batch.layout.lengths), corrupted.split(batch.layout.lengths), strict=True
    ):
        logits.append(generator(masked[None]).logits[0])
        detected.append(discriminator(read[None]).logits[0])
    mlm = F.cross_entropy(torch.cat(logits)[batch.selected], batch.original)
    rtd = F.binary_cross_entropy_with_logits(torch.cat(detected), labels)
    torch.testing.assert_close(found["mlm"], mlm.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found["rtd"], rtd.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found["loss"].detach(), (mlm + 7.0 * rtd).detach(), rtol=1e-5, atol=1e-5)


def test_detection_moves_nothing_of_the_generator() -> None:
    objective = electra()
    batch = objective.collate(random_rows([20, 9]), seed=3, step=1)
    outcome = objective.outcome(batch, measure=False)
    outcome.sums["rtd"].backward()
    own = [*objective.generator.parameters(), *objective.generator_head.parameters()]
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in own)
    assert all(parameter.grad is not None for parameter in objective.discriminator.parameters())


def test_selected_tokens_are_masked_or_kept_and_never_random() -> None:
    objective = electra(max_positions=512)
    batch = objective.collate(random_rows([500] * 40), seed=0, step=0)
    after = batch.input_ids[batch.selected]
    hidden, kept = after == MASK, after == batch.original
    assert bool((hidden | kept).all())
    assert hidden.float().mean() == pytest.approx(0.85, abs=0.02)
    assert batch.sequences == 40  # one view


@pytest.mark.parametrize("positions", ["absolute", "rotary"])
def test_exports_load_whole(positions: str, tmp_path: Path) -> None:
    objective = electra(positions=positions, embedding_size=12).eval()
    loaders = {"encoder": AutoModel, "generator": AutoModelForMaskedLM, "pre_training": AutoModelForPreTraining}
    for name in objective.exports:
        save_pretrained(objective, tmp_path / name, name)
        loaded, report = loaders[name].from_pretrained(tmp_path / name, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"], name
        assert loaded.config.architectures == [type(loaded).__name__]
    assert ("pre_training" in objective.exports) == (positions == "absolute")


def test_micro_batches_add_up_to_the_whole_batch() -> None:
    objective, rows = electra(), random_rows([20, 9, 31, 12])
    whole = objective(objective.collate(rows, seed=1, step=0))
    parts = [objective.collate([rows[i] for i in some], seed=1, step=0, row_indices=some) for some in ([0, 3], [1, 2])]
    added = [objective(part, share) for part, share in zip(parts, objective.survey(parts), strict=True)]
    for name in ("loss", "mlm", "rtd"):
        torch.testing.assert_close(sum(one[name] for one in added), whole[name], rtol=1e-5, atol=1e-6)


def test_figures_are_named_and_plausible() -> None:
    objective = electra().eval()
    batch = objective.collate(random_rows([40] * 20), seed=1, step=0)
    rates = objective.rates(objective.metrics(batch))
    assert tuple(rates) == objective.held_out_figures
    assert rates["loss"] == pytest.approx(rates["mlm_loss"] + 50.0 * rates["rtd_loss"])
    assert rates["replaced_rate"] == pytest.approx(rates["selected_rate"], abs=0.02)  # random weights never guess right
    steps = objective.step_figures({name: float(value) for name, value in objective(batch).items()})
    assert steps["replaced_rate"] == pytest.approx(rates["replaced_rate"], rel=1e-5)
    assert {"loss", "mlm", "rtd", "rtd_recall", "rtd_precision"} <= steps.keys()


def test_dropout_and_samples_follow_from_the_step() -> None:
    objective = build("electra", TINY).train()
    batch = objective.collate(random_rows([12, 9]), seed=1, step=4)
    assert float(objective(batch)["loss"].detach()) == float(objective(batch)["loss"].detach())
    other = objective.collate(random_rows([12, 9]), seed=1, step=5)
    assert float(objective(batch)["loss"].detach()) != float(objective(other)["loss"].detach())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"generator_divisor": 5}, "generator_divisor=5 must divide hidden_size=24"),
        ({"rtd_weight": 0.0}, "objective bert trains MLM alone"),
        ({"mask_probability": 1.0}, r"mask_probability must lie in \(0, 1\)"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("electra", TINY | settings)
