"""Added rows of the word table change no loss, gradient or sample, and are not exported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from models.encoder.network import Encoder, count_parameters
from models.export import save_pretrained
from models.objectives import build
from models.objectives.ehealth.objective import EHealth
from models.weights.convert import load_from_transformers, to_transformers

MakeRows = Callable[..., list[Any]]
WORD = "discriminator.own_embeddings.word.weight"
BIAS = "generator_head.bias"


def both(tiny: dict[str, Any]) -> tuple[EHealth, EHealth]:
    """Two models of one seed, without and with added rows: 300 tokens in 300 and in 320 rows."""
    objectives = []
    for multiple in (1, 64):
        torch.manual_seed(0)
        objectives.append(build("ehealth", tiny | {"initializer_range": 0.1, "vocab_multiple": multiple}))
    return objectives[0], objectives[1]


def test_same_seed_gives_the_same_weights(tiny: dict[str, Any]) -> None:
    plain, filled = both(tiny)
    assert filled.state_dict()[WORD].shape == (320, 24) and filled.state_dict()[BIAS].shape == (320,)
    assert count_parameters(filled) == count_parameters(plain) + 20 * 24 + 20
    for name, value in plain.state_dict().items():
        given = filled.state_dict()[name]
        assert torch.equal(given[: len(value)], value) and not given[len(value) :].any(), name


def test_losses_samples_gradients_and_steps_are_the_same(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    runs = []
    for objective in both(tiny):
        optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-2)
        losses = []
        for step in range(3):
            batch = objective.collate(make_rows([20, 12, 33]), seed=1, step=step)
            result = objective._run(batch)
            assert result.generator.sample.max() < 300 and result.generator.negatives.max() < 300
            terms = objective(batch)
            terms["loss"].backward()
            losses.append([value.item() for value in terms.values()])
            filling = [objective.get_parameter(name).grad[300:] for name in (WORD, BIAS)]
            assert not any(gradient.any() for gradient in filling)
            optimizer.step()
            optimizer.zero_grad()
        runs.append((losses, objective.state_dict(), result.generator.sample))
    (plain, plain_state, plain_sample), (filled, filled_state, filled_sample) = runs
    torch.testing.assert_close(torch.tensor(filled), torch.tensor(plain), rtol=1e-6, atol=1e-6)
    assert torch.equal(plain_sample, filled_sample)
    for name, value in plain_state.items():
        found = filled_state[name][: len(value)]
        if name.endswith("qkv.bias"):
            # Softmax ignores the keys' biases: their gradients are rounding, which AdamW scales up to whole steps.
            found, value = (torch.cat((q, v)) for q, _, v in (found.chunk(3), value.chunk(3)))
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-5)


def test_certain_generator_never_proposes_an_added_row(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    """Even if added rows would have the largest logits of all."""
    _, objective = both(tiny)
    with torch.no_grad():
        objective.get_parameter(BIAS)[300:] = 1000.0
        objective.get_parameter(BIAS)[299] = 500.0  # all others weigh the least that the sampler knows
    result = objective._run(objective.collate(make_rows([60] * 8), seed=1, step=0), count_correct=True)
    assert (result.generator.sample == 299).all()
    assert result.generator.negatives.max() < 300 and torch.isfinite(result.generator.loss_sum)


@pytest.mark.parametrize("multiple", [1, 64])
def test_export_has_the_true_vocabulary(multiple: int, tiny: dict[str, Any], tmp_path: Path) -> None:
    objective = build("ehealth", tiny | {"vocab_multiple": multiple})
    save_pretrained(objective, tmp_path)
    model, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.embeddings.word_embeddings.weight.shape == (300, 24)
    assert json.loads((tmp_path / "config.json").read_text())["vocab_size"] == 300
    again = Encoder(objective.config.discriminator)
    load_from_transformers(again, model.state_dict())
    exported = to_transformers(again)
    assert all(torch.equal(exported[name], value) for name, value in model.state_dict().items())


def test_checkpoint_without_added_rows_loads_into_a_model_with_them(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    plain, filled = both(tiny)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.add_(0.01)
    state = plain.state_dict()
    filled.load_state_dict(state)
    assert state[WORD].shape == (300, 24)  # the caller's state is left as it was
    batch = plain.collate(make_rows([20, 12]), seed=1, step=0)
    torch.testing.assert_close(filled(batch)["loss"], plain(batch)["loss"])


def test_checkpoint_with_other_added_rows_is_refused(tiny: dict[str, Any]) -> None:
    plain, filled = both(tiny)
    with pytest.raises(ValueError, match=r"word\.weight has 320 rows in this checkpoint; the model has 300 tokens"):
        plain.load_state_dict(filled.state_dict())


def test_impossible_multiples_are_named(tiny: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="vocab_multiple must be a positive integer, got 0"):
        build("ehealth", tiny | {"vocab_multiple": 0})
