"""eHealth's objective: sizes, losses against a plain padded implementation, gradient isolation, held-out figures."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraModel

from models.batch import MaskedBatch
from models.encoder.network import Encoder, count_parameters
from models.encoder.randomness import SequenceNoise, Stream
from models.objectives import build
from models.objectives.ehealth.objective import EHealth
from models.weights.convert import electra_config, to_transformers
from tests.support.training.plain_encoder import PlainEncoder

MakeRows = Callable[..., list[Any]]


def test_base_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        objective = build("ehealth", {"vocab_size": 21_128})
    assert count_parameters(objective.discriminator) == 101_677_056
    assert count_parameters(objective.discriminator) + count_parameters(objective.rtd_head) == 102_268_417
    assert count_parameters(objective.generator) + count_parameters(objective.generator_head) == 9_894_024
    assert count_parameters(objective) == 112_162_441


def test_losses_at_random_initialisation(make_rows: MakeRows) -> None:
    """Every loss starts near the uniform guess (numbers.md), with the width that eHealth has."""
    torch.manual_seed(0)
    objective = build("ehealth", {"vocab_size": 2000, "num_layers": 2, "intermediate_size": 768}).eval()
    rows = make_rows([40, 44, 48, 52, 56, 60, 60, 60], vocab_size=2000)
    terms = {name: value.item() for name, value in objective(objective.collate(rows, seed=1, step=0)).items()}
    assert 0.05 < terms["mlm"] - math.log(2000) < 0.25
    assert terms["rtd"] == pytest.approx(math.log(2), abs=0.08)
    assert 0.0 < terms["mts"] - math.log(6) < 0.2
    assert 0.0 < math.log(15) - terms["csp"] < 0.6
    weighted = terms["mlm"] + 50 * terms["rtd"] + 20 * terms["mts"] + terms["csp"]
    assert terms["loss"] == pytest.approx(weighted, rel=1e-5)


Forward = Callable[[Tensor], Sequence[Tensor]]
"""Takes the ids of a batch, laid end to end; returns the states of each sequence, perhaps with padding behind them."""


def plain_losses(
    objective: EHealth, batch: MaskedBatch, table: Tensor, discriminator: Forward, generator: Forward
) -> dict[str, Tensor]:
    """Eq. 1 to 8 position by position, on other networks than ours, with full-vocabulary logits.

    Takes from ours only the masked batch, what was sampled, and the weights of the heads; `table` (V, E) holds the word
    embeddings of the other networks.
    """
    result = objective._run(batch)
    lengths = batch.layout.lengths
    offsets = batch.layout.offsets.tolist()
    original, corrupted = batch.input_ids.clone(), batch.input_ids.clone()
    original[batch.selected] = batch.original
    corrupted[batch.selected] = result.generator.sample
    candidates = dict(zip(batch.selected.tolist(), result.generator.negatives.tolist(), strict=True))
    hidden_g, hidden_d = generator(batch.input_ids), discriminator(corrupted)
    head, rtd = objective.generator_head, objective.rtd_head
    assert rtd is not None

    def applied(dense: nn.Linear | None, state: Tensor) -> Tensor:
        return state if dense is None else F.linear(state, dense.weight, dense.bias)

    mlm, detection, selection = [], [], []
    for s, length in enumerate(lengths):
        for place in range(length):
            t = offsets[s] + place
            is_replaced = bool(corrupted[t] != original[t])
            detector = applied(rtd.output, F.gelu(applied(rtd.dense, hidden_d[s][place])))
            probability = torch.sigmoid(-detector[0])  # Eq. 3: that the token is the original
            detection.append(-torch.log(1 - probability if is_replaced else probability))
            if t in candidates:
                transformed = head.norm(F.gelu(applied(head.transform, hidden_g[s][place])))
                mlm.append(-torch.log_softmax(table @ transformed + head.bias, 0)[original[t]])
            if is_replaced:
                scores = table[[int(original[t]), *candidates[t]]] @ applied(objective.mts_dense, hidden_d[s][place])
                selection.append(-torch.log_softmax(scores, 0)[0])
    firsts = [applied(objective.csp_dense, hidden_d[s][0]) for s in range(len(lengths))]
    unit = [first / first.norm() for first in firsts]
    contrast = []
    for i in range(len(unit)):
        scores = torch.stack([unit[i] @ unit[j] / 0.07 for j in range(len(unit)) if j != i])
        others = [j for j in range(len(unit)) if j != i]
        contrast.append(-torch.log_softmax(scores, 0)[others.index(i ^ 1)])
    terms = {"mlm": mlm, "rtd": detection, "mts": selection, "csp": contrast}
    means = {name: torch.stack(values).mean() for name, values in terms.items()}
    return {"loss": means["mlm"] + 50 * means["rtd"] + 20 * means["mts"] + means["csp"]} | means


def padded_forward(model: nn.Module, batch: MaskedBatch) -> Forward:
    """A transformers model on padded rows."""

    def forward(ids_T: Tensor) -> Tensor:
        parts = ids_T.split(list(batch.layout.lengths))
        padded = nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
        mask = nn.utils.rnn.pad_sequence([torch.ones_like(p) for p in parts], batch_first=True)
        return model(padded, attention_mask=mask)[0]

    return forward


def plain_forward(encoder: Encoder, batch: MaskedBatch, purpose: Stream) -> Forward:
    """The definition of an encoder, sequence by sequence, each with its own dropout stream of the step."""
    plain, views = PlainEncoder(encoder), zip(batch.rows, batch.views, strict=True)
    streams = [
        SequenceNoise.for_step(batch.seed, batch.step, purpose, np.array([row]), np.array([view]))
        for row, view in views
    ]

    def forward(ids_T: Tensor) -> list[Tensor]:
        parts = ids_T.split(list(batch.layout.lengths))
        return [plain(part, stream) for part, stream in zip(parts, streams, strict=True)]

    return forward


@pytest.mark.parametrize(("lengths", "words"), [([20, 12, 12, 33], 300), ([25, 9, 40, 11, 30, 6], 8)])
def test_losses_and_gradients_equal_a_plain_implementation(
    lengths: list[int], words: int, tiny: dict[str, Any], make_rows: MakeRows
) -> None:
    """With three words that the generator is fond of it is often right: what it restores is no replaced token."""
    torch.manual_seed(0)
    objective = build("ehealth", tiny | {"initializer_range": 0.2}).eval()
    with torch.no_grad():
        objective.generator_head.bias[5:8] += 4.0 if words == 8 else 0.0
    discriminator = ElectraModel(ElectraConfig(**electra_config(objective.config.discriminator)))
    generator = ElectraModel(ElectraConfig(**electra_config(objective.config.generator)))
    generator.embeddings = discriminator.embeddings
    discriminator.embeddings.word_embeddings.padding_idx = None  # ours trains [PAD]'s row like any other
    discriminator.load_state_dict(to_transformers(objective.discriminator))
    generator.load_state_dict(to_transformers(objective.generator))
    batch = objective.collate(make_rows(lengths, vocab_size=words), seed=3, step=1)
    right = objective._run(batch).generator.sample == batch.original
    assert (3 < right.sum() < len(right) - 3) == (words == 8)
    forwards = [padded_forward(peer.eval(), batch) for peer in (discriminator, generator)]
    table = discriminator.embeddings.word_embeddings.weight
    ours, plain = objective(batch), plain_losses(objective, batch, table, *forwards)
    for name in plain:
        torch.testing.assert_close(ours[name], plain[name].detach(), rtol=1e-5, atol=1e-5, check_dtype=True)

    heads = [p for module in (objective.generator_head, objective.rtd_head) for p in module.parameters()]
    expected_heads = torch.autograd.grad(plain["loss"], heads, retain_graph=True)
    plain["loss"].backward()
    objective.zero_grad()
    ours["loss"].backward()
    for head, expected in zip(heads, expected_heads, strict=True):
        _assert_close_to_scale(head.grad, expected)
    for encoder, peer in ((objective.discriminator, discriminator), (objective.generator, generator)):
        with torch.no_grad():
            for parameter in [*encoder.parameters(), *encoder.embeddings.parameters()]:
                if parameter.grad is not None:  # shared tables are met twice
                    parameter.copy_(parameter.grad)
        for name, gradient in to_transformers(encoder).items():
            _assert_close_to_scale(gradient, peer.get_parameter(name).grad)


@pytest.mark.parametrize(
    ("lengths", "words", "shape"),
    [
        ([20, 12, 12, 33], 300, {}),
        ([25, 9, 40, 11, 30, 6], 8, {}),
        ([3, 61, 4], 8, {"num_heads": 2, "generator_divisor": 2, "num_layers": 3, "csp_projection": True}),
        ([17, 17, 17], 12, {"embedding_size": 16, "hidden_size": 36, "generator_divisor": 2}),
    ],
)
def test_losses_and_gradients_with_dropout_equal_the_definition(
    lengths: list[int], words: int, shape: dict[str, Any], tiny: dict[str, Any], make_rows: MakeRows
) -> None:
    """Where few words occur the generator is fond of three, and often right."""
    torch.manual_seed(0)
    dropout = {"hidden_dropout": 0.2, "attention_dropout": 0.3}
    objective = build("ehealth", tiny | {"initializer_range": 0.2} | dropout | shape).train()
    with torch.no_grad():
        objective.generator_head.bias[5:8] += 4.0 if words < 300 else 0.0
    batch = objective.collate(make_rows(lengths, vocab_size=words), seed=3, step=1)
    right = objective._run(batch).generator.sample == batch.original
    assert (1 < right.sum() < len(right) - 1) == (words < 300)
    table = objective.discriminator.embeddings.word.weight
    discriminator = plain_forward(objective.discriminator, batch, Stream.DISCRIMINATOR_DROPOUT)
    generator = plain_forward(objective.generator, batch, Stream.GENERATOR_DROPOUT)
    plain = plain_losses(objective, batch, table, discriminator, generator)
    ours = objective(batch)
    for name, value in plain.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-5, check_dtype=True)
    parameters = dict(objective.named_parameters())
    found, expected = (torch.autograd.grad(terms["loss"], list(parameters.values())) for terms in (ours, plain))
    for gradient, other in zip(found, expected, strict=True):
        _assert_close_to_scale(gradient, other)


def _assert_close_to_scale(ours: Tensor | None, expected: Tensor | None) -> None:
    assert ours is not None and expected is not None
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5 * max(1.0, float(expected.abs().max())))


def gradients_of(config: dict[str, Any], make_rows: MakeRows, **weights: float) -> tuple[EHealth, dict[str, float]]:
    """Largest gradient of each parameter for the given term weights."""
    torch.manual_seed(0)
    objective = build("ehealth", config | weights)
    objective(objective.collate(make_rows([20, 12, 12]), seed=3, step=1))["loss"].backward()
    return objective, {n: 0.0 if p.grad is None else float(p.grad.abs().max()) for n, p in objective.named_parameters()}


def test_discriminator_losses_leave_the_generator_alone(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    """The generator's gradient is the same, bit for bit, with the discriminator's losses and without."""
    off = {"rtd_weight": 0.0, "mts_weight": 0.0, "csp_weight": 0.0}
    full, with_terms = gradients_of(tiny, make_rows)
    alone, mlm_only = gradients_of(tiny, make_rows, **off)
    state = full.state_dict()
    alone.load_state_dict({name: state[name] for name in alone.state_dict()})
    alone.zero_grad()
    alone(alone.collate(make_rows([20, 12, 12]), seed=3, step=1))["loss"].backward()
    own = [name for name, _ in full.named_parameters() if name.startswith("generator")]
    assert len(own) > 20
    for name in own:
        assert torch.equal(full.get_parameter(name).grad, alone.get_parameter(name).grad), name
    assert all(with_terms[name] > 0 for name in own)
    body = [n for n in mlm_only if n.startswith("discriminator.layers") or n.startswith("rtd")]
    assert body and all(mlm_only[name] == 0 for name in body)
    assert all(mlm_only[f"discriminator.own_embeddings.{n}.weight"] > 0 for n in ("word", "position", "token_type"))


@pytest.mark.parametrize("term", ["rtd", "mts", "csp"])
def test_term_with_weight_zero_is_not_computed(term: str, tiny: dict[str, Any], make_rows: MakeRows) -> None:
    objective = build("ehealth", tiny | {f"{term}_weight": 0.0})
    batch = objective.collate(make_rows([20, 12]), seed=3, step=1)
    losses, rates = objective(batch), objective.rates(objective.eval().metrics(batch))
    assert term not in losses and {"loss", "mlm", "rtd", "mts", "csp"} - {term} <= set(losses)
    assert not any(name.startswith(term) for name in losses)
    assert not any(name.startswith(term) for name in rates)
    losses["loss"].backward()
    unused = [n for n, p in objective.named_parameters() if p.grad is None]
    assert unused == []  # or DistributedDataParallel would wait for their gradients


def test_narrow_embedding_gets_a_dense_layer_before_selection(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    objective = build("ehealth", tiny | {"embedding_size": 16, "csp_projection": True})
    losses = objective(objective.collate(make_rows([20, 12]), seed=3, step=1))
    losses["loss"].backward()
    assert objective.mts_dense.weight.shape == (16, 24) and float(objective.mts_dense.weight.grad.abs().max()) > 0
    assert float(objective.csp_dense.weight.grad.abs().max()) > 0


def test_step_is_a_function_of_seed_step_and_rows(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    objective, rows = build("ehealth", tiny), make_rows([20, 12, 12, 33])

    def losses(order: list[int], seed: int = 1, step: int = 2) -> list[float]:
        batch = objective.collate([rows[i] for i in order], seed=seed, step=step, row_indices=order)
        return [value.item() for value in objective(batch).values()]

    base = losses([0, 1, 2, 3])
    assert losses([0, 1, 2, 3]) == base
    assert losses([3, 1, 0, 2]) == base
    assert losses([0, 1, 2, 3], seed=2) != base and losses([0, 1, 2, 3], step=3) != base


def test_training_on_one_batch_lowers_every_loss(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    torch.manual_seed(0)
    # A larger start than the paper's: at 24 wide, 0.02 leaves all [CLS] alike for hundreds of steps.
    options = {"initializer_range": 0.1, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    objective = build("ehealth", tiny | options)
    rows = make_rows([30] * 8, vocab_size=60)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=2e-3)
    held_out = objective.collate(rows, seed=99, step=0)
    before = objective.rates(objective.eval().metrics(held_out))
    objective.train()
    for step in range(200):
        optimizer.zero_grad()
        objective(objective.collate(rows, seed=1, step=step))["loss"].backward()
        optimizer.step()
    after = objective.rates(objective.eval().metrics(held_out))
    assert after["mlm_loss"] < before["mlm_loss"] - 1.5
    assert after["rtd_balanced_accuracy"] > 0.57
    assert after["csp_accuracy"] > 0.8 and after["csp_loss"] < before["csp_loss"] / 4
    assert after["mts_accuracy"] > 0.3 > after["mts_chance"]


def test_figures_add_up_over_batches(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    """Rates of added sums are rates over all tokens; checked against the plain definitions."""
    torch.manual_seed(0)
    objective = build("ehealth", tiny | {"initializer_range": 0.5}).eval()
    batches = [objective.collate(make_rows(n, seed=i), seed=3, step=i) for i, n in enumerate(([20, 12], [40, 9, 9]))]
    sums: dict[str, float] = {}
    hits = untouched = misses = replaced = 0
    for batch in batches:
        for name, value in objective.metrics(batch).items():
            sums[name] = sums.get(name, 0.0) + float(value)
        result = objective._run(batch)
        # Counted as replaced: more probable than the share that is masked.
        labels, found = result.rtd_labels_T, result.rtd_logits_T.sigmoid() > objective.config.mask_probability
        hits += int((found & labels).sum())
        misses += int((~found & ~labels).sum())
        replaced, untouched = replaced + int(labels.sum()), untouched + int((~labels).sum())
    rates = objective.rates(sums)
    assert rates["rtd_balanced_accuracy"] == pytest.approx((hits / replaced + misses / untouched) / 2)
    assert rates["replaced_rate"] == pytest.approx(replaced / sum(b.tokens for b in batches))
    assert rates["csp_chance"] == pytest.approx((4 / 3 + 6 / 5) / 10)
    assert rates["mts_chance"] == pytest.approx(1 / 6)
    losses = [objective(batch)["mlm"].item() * len(batch.original) for batch in batches]
    assert rates["mlm_loss"] == pytest.approx(sum(losses) / sum(len(b.original) for b in batches), rel=1e-5)


@pytest.mark.parametrize("off", [(), ("rtd_weight",), ("mts_weight",), ("csp_weight",)])
def test_names_of_held_out_figures_are_known_in_advance(
    off: tuple[str, ...], tiny: dict[str, Any], make_rows: Callable[..., Any]
) -> None:
    objective = build("ehealth", tiny | dict.fromkeys(off, 0.0))
    batch = objective.collate(make_rows([9, 12]), seed=1, step=0)
    assert set(objective.held_out_figures) == set(objective.rates(objective.metrics(batch)))


def test_rows_that_leave_nothing_to_mask(tiny: dict[str, Any]) -> None:
    """A batch of [UNK] trains RTD and CSP and has no MLM or MTS loss."""
    objective = build("ehealth", tiny)
    rows = [{"input_ids": [2, 1, 1, 3], "word_starts": [1]}] * 2
    losses = objective(objective.collate(rows, seed=1, step=0))
    losses["loss"].backward()
    assert losses["mlm"] == 0 and losses["mts"] == 0 and losses["rtd"] > 0
    rates = objective.rates(objective.metrics(objective.collate(rows, seed=1, step=0)))
    assert math.isnan(rates["mlm_accuracy"]) and math.isnan(rates["mts_accuracy"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"generator_divisor": 5}, r"generator_divisor=5 must divide hidden_size=24, .*possible here: \[1, 2, 3, 6\]"),
        ({"generator_divisor": 0}, "generator_divisor=0"),
        ({"num_heads": 5}, "num_heads=5 must divide hidden_size=24"),
        ({"mask_probability": 0.0}, r"mask_probability must be in \(0, 1\]"),
        ({"rtd_weight": -1.0}, "rtd_weight must be 0"),
        ({"csp_temperature": 0.0}, "csp_temperature must be positive"),
        ({"mts_negatives": 300}, "mts_negatives must be between 1 and vocab_size - 1"),
        ({"vocab_size": 5, "mts_negatives": 1}, "leaves no token"),
        ({"embedding_size": 16, "mts_projection": False}, "mts_projection=False needs"),
        ({"mask_probability": "x"}, r"model\.mask_probability is 'x'; it must be a finite number"),
        ({"rtd_weight": "a"}, r"model\.rtd_weight is 'a'; it must be a finite number"),
        ({"mts_negatives": 2.5}, r"model\.mts_negatives is 2\.5; it must be an integer"),
        (
            {"csp_across_micro_batches": "false"},
            r"model\.csp_across_micro_batches is 'false'; it must be true or false",
        ),
        ({"mts_projection": 0}, r"model\.mts_projection is 0; it must be true, false or left out"),
        ({"num_layers": True}, r"model\.num_layers is True; it must be an integer"),
        ({"embedding_size": 0}, "embedding_size must be a positive integer"),
        ({"hiden_size": 8}, "unknown key 'hiden_size' .* did you mean hidden_size"),
    ],
)
def test_impossible_configs_are_named(change: dict[str, Any], message: str, tiny: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message):
        build("ehealth", tiny | change)


def test_registry_errors() -> None:
    with pytest.raises(ValueError, match="unknown objective 'elektra'; known: bert, ehealth, electra"):
        build("elektra", {})
    with pytest.raises(ValueError, match="needs vocab_size"):
        build("ehealth", {"hidden_size": 768})


def test_held_out_loss_weighs_its_terms_as_equation_8(tiny: dict[str, Any], make_rows: Callable[..., Any]) -> None:
    objective = build("ehealth", tiny).eval()
    rates = objective.rates(objective.metrics(objective.collate(make_rows([30] * 6), seed=1, step=0)))
    terms = [rates[f"{term}_loss"] for term in ("mlm", "rtd", "mts", "csp")]
    assert rates["loss"] == pytest.approx(sum(w * t for w, t in zip((1, 50, 20, 1), terms, strict=True)))
