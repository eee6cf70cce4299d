"""EMBERT's objective: batches and losses against the paper's equations, written plainly entity by entity."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm
from transformers import AutoModel, BertForPreTraining

from models.encoder.randomness import Stream, uniforms
from models.export import save_pretrained
from models.objectives import ablations, build
from models.objectives.embert.entity_batch import EntityBatch
from models.objectives.embert.entity_rows import NOT_REPLACED, EntityRows, exchanged, replaced
from models.tokenizer.special_ids import MASK
from tests.support.training.entity_rows import random_entity_rows, random_surfaces
from tests.support.training.token_rows import TINY

SURFACES = random_surfaces()
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
OFF = {"consistency": "consistency_weight", "segmentation": "segmentation_weight", "terms": "bidirectional_weight"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("surfaces")
    SURFACES.save(made)
    return made


def embert(folder: Path, **options: Any) -> Any:
    torch.manual_seed(0)
    settings = TINY | NO_DROPOUT | {"replace_probability": 0.5, "term_probability": 0.6, "term_position_size": 10}
    objective = build("embert", settings | options)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    objective.attach("entity_surfaces", folder)
    return objective


def tokens_of(surface: int) -> list[int]:
    return SURFACES.ids[SURFACES.borders[surface] : SURFACES.borders[surface + 1]].tolist()


# One sample at a time, by the equations


def normed(x: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    return layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)


def plain_consistency(head: Any, x: Tensor, start: int, behind: int, label: int) -> Tensor:
    h = torch.cat([x[start - 1], x[behind]])  # x_(s-1) and x_(e+1), e the last token
    y = normed(gelu(head.dense.weight @ h), head.norm)
    return -torch.log_softmax(head.output.weight @ y, 0)[label]


def plain_segmentation(head: Any, x: Tensor, place: int, label: int) -> Tensor:
    y = torch.tanh(head.mix.weight @ normed(gelu(head.dense.weight @ x[place]), head.norm) + head.mix.bias)
    return -torch.log_softmax(head.output.weight @ y, 0)[label]


def plain_term(
    head: Any, table: Tensor, x: Tensor, begin: int, end: int, first: int, last: int, original: list[int]
) -> Tensor:
    """Sum over the tokens of a masked term [begin, end) of Eq. 8."""
    total = torch.zeros(())
    for j in range(begin, end):
        p = head.position.weight[min(j - begin, head.position.num_embeddings - 1)]
        h0 = torch.cat([x[first], x[last], p])
        h1 = normed(gelu(head.first.weight @ h0), head.first_norm)
        y = normed(gelu(head.second.weight @ h1), head.second_norm)
        total = total - torch.log_softmax(table @ y, 0)[original[j - begin]]
    return total


class Occurrence(NamedTuple):
    """An entity in its row as the model reads it."""

    row: int
    start: int
    behind: int
    surface: int
    label: int
    masked: str
    """The term that is masked: atomic, adjective, or neither."""

    @property
    def border(self) -> int:
        return self.start + int(SURFACES.adjective[self.surface])


def occurrences(
    objective: Any, rows: list[dict[str, Any]], seed: int, step: int
) -> tuple[EntityRows, list[Occurrence]]:
    """What collate should make of the rows; replacement and exchange are tested in test_entity_rows.py."""
    config, numbers = objective.config, np.arange(len(rows))
    laid = EntityRows.of(rows, numbers, SURFACES)
    if config.consistency_weight:
        share, longest = config.replaced_share, config.max_positions
        frequent = config.wrong_entity == "as_frequent"
        laid = replaced(laid, SURFACES, seed=seed, step=step, probability=share, longest=longest, as_frequent=frequent)
    if config.pair_task == "sop":
        laid = exchanged(laid, uniforms(seed, step, numbers, Stream.PAIR_ORDER, 0) < 0.5)
    found = []
    for (row, start, behind, surface), label in zip(laid.entities.tolist(), laid.labels.tolist(), strict=True):
        masked = ""
        long = SURFACES.adjective[surface] > 0 and label == NOT_REPLACED and config.bidirectional_weight
        if long and uniforms(seed, step, row, Stream.TERM_MASKED, start)[0] < config.masked_terms:
            masked = "atomic" if uniforms(seed, step, row, Stream.TERM_SIDE, start)[0] < 0.5 else "adjective"
        found.append(Occurrence(row, start, behind, surface, label, masked))
    return laid, found


def plain_losses(objective: Any, batch: EntityBatch, found: list[Occurrence]) -> dict[str, Tensor]:
    """The means of the four entity losses, summed one entity at a time."""
    table = objective.encoder.embeddings.word.weight
    states = objective.encoder(batch.input_ids, batch.layout, batch.type_ids)
    by_row = dict(zip(batch.rows.tolist(), states.split(list(batch.layout.lengths)), strict=True))
    sums = dict.fromkeys(("consistency", "segmentation", "atomic", "adjective"), torch.zeros(()))
    counts = dict.fromkeys(sums, 0)

    def add(name: str, loss: Tensor, count: int = 1) -> None:
        sums[name], counts[name] = sums[name] + loss, counts[name] + count

    for one in found:
        x, names = by_row[one.row], tokens_of(one.surface)
        if one.label != NOT_REPLACED:
            add("consistency", plain_consistency(objective.consistency, x, one.start, one.behind, one.label))
        flags = SURFACES.is_end[SURFACES.borders[one.surface] : SURFACES.borders[one.surface + 1]].tolist()
        for place, flag in enumerate(flags if sum(flags) > 1 else []):
            add("segmentation", plain_segmentation(objective.segmentation, x, one.start + place, int(flag)))
        cut = one.border - one.start
        if one.masked == "atomic":
            loss = plain_term(objective.term, table, x, one.border, one.behind, one.start, one.border - 1, names[cut:])
            add("atomic", loss, len(names) - cut)
        if one.masked == "adjective":
            loss = plain_term(objective.term, table, x, one.start, one.border, one.border, one.behind - 1, names[:cut])
            add("adjective", loss, cut)
    assert min(counts.values()) > 3, "the rows must exercise every head"
    return {name: sums[name] / counts[name] for name in sums}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_losses_and_gradients_are_those_of_the_equations(seed: int, folder: Path) -> None:
    objective = embert(folder, wrong_entity="as_frequent" if seed == 2 else "random")
    rows = random_entity_rows(SURFACES, 24, seed)
    batch = objective.collate(rows, seed=seed, step=3)
    _, found = occurrences(objective, rows, seed, 3)
    values = objective(batch)
    expected = plain_losses(objective, batch, found)
    for name, loss in expected.items():
        torch.testing.assert_close(values[name], loss.detach(), rtol=1e-5, atol=1e-5)
    whole = values["mlm"] + values["sop"] + 2 * expected["consistency"] + 2 * expected["segmentation"]
    whole = whole + 0.5 * (expected["atomic"] + expected["adjective"])
    torch.testing.assert_close(values["loss"], whole, rtol=1e-5, atol=1e-5)

    values["loss"].backward()
    own = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    whole.backward()
    for part in ("consistency", "segmentation", "term"):
        for name, parameter in objective.get_submodule(part).named_parameters():
            torch.testing.assert_close(own[f"{part}.{name}"], parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_batch_is_masked_where_it_should_be(seed: int, folder: Path) -> None:
    objective = embert(folder, mask_probability=0.5)
    rows = random_entity_rows(SURFACES, 16, seed)
    batch = objective.collate(rows, seed=seed, step=0)
    laid, found = occurrences(objective, rows, seed, 0)
    begins = dict(zip(batch.rows.tolist(), batch.layout.offsets.tolist(), strict=False))
    expected, selected = batch.input_ids.clone(), set(batch.selected.tolist())
    for number, row in enumerate(laid.as_rows()):
        begin = begins[number]
        expected[begin : begin + len(row["input_ids"])] = torch.from_numpy(row["input_ids"].astype(np.int64))
    read = expected.clone()
    for one in found:
        begin = begins[one.row]
        if one.label != NOT_REPLACED or one.masked:
            assert not selected & set(range(begin + one.start, begin + one.behind))
        if one.masked:
            bounds = (one.border, one.behind) if one.masked == "atomic" else (one.start, one.border)
            read[begin + bounds[0] : begin + bounds[1]] = MASK
    assert (batch.original == expected[batch.selected]).all()
    untouched = torch.ones(batch.tokens, dtype=torch.bool)
    untouched[batch.selected] = False
    assert (batch.input_ids[untouched] == read[untouched]).all()
    assert batch.type_ids is not None
    for begin, length, row in zip(
        batch.layout.offsets.tolist(), batch.layout.lengths, batch.rows.tolist(), strict=False
    ):
        second = int(laid.seconds[row])
        assert batch.type_ids[begin : begin + length].tolist() == [0] * second + [1] * (length - second)
    order = {row: bool(uniforms(seed, 0, row, Stream.PAIR_ORDER, 0)[0] < 0.5) for row in range(len(rows))}
    assert batch.extras["pair_labels"].bool().tolist() == [order[row] for row in batch.rows.tolist()]


def test_each_epoch_replaces_anew_and_a_step_is_repeated_exactly(folder: Path) -> None:
    objective, rows = embert(folder), random_entity_rows(SURFACES, 24)
    first, again, later = (objective.collate(rows, seed=5, step=step) for step in (0, 0, 40))
    assert torch.equal(first.input_ids, again.input_ids)
    assert torch.equal(first.consistency["labels"], again.consistency["labels"])
    assert first.tokens != later.tokens or not torch.equal(first.input_ids, later.input_ids)
    alone = objective.collate([rows[7]], seed=5, step=0, row_indices=[7])
    place = first.rows.tolist().index(7)
    begin, length = int(first.layout.offsets[place]), first.layout.lengths[place]
    assert torch.equal(alone.input_ids, first.input_ids[begin : begin + length]), "whatever shares its batch"


def test_gradients_that_must_be_zero_are(folder: Path) -> None:
    objective = embert(folder)
    batch = objective.collate(random_entity_rows(SURFACES, 24), seed=0, step=0)
    heads = {"consistency": "consistency", "segmentation": "segmentation", "atomic": "term", "adjective": "term"}
    for name, head in heads.items():
        hidden = objective.hidden(batch).detach().requires_grad_()
        objective.zero_grad()
        targets = getattr(batch, name)
        objective.hidden = lambda _, hidden=hidden: hidden
        objective.outcome(batch, measure=False).sums[name].backward()
        del objective.hidden
        used = {"consistency": ("before", "after"), "segmentation": ("tokens",)}.get(name, ("first", "last"))
        read = torch.zeros(batch.tokens, dtype=torch.bool)
        for place in used:
            read[targets[place]] = True
        assert (hidden.grad[~read] == 0).all()
        assert (hidden.grad[read].abs().sum(1) > 0).all()
        touched = {
            path.split(".")[0] for path, p in objective.named_parameters() if p.grad is not None and p.grad.any()
        }
        assert touched == {head} | ({"encoder"} if head == "term" else set())
        if head == "term":
            changed = [path for path, p in objective.encoder.named_parameters() if p.grad is not None and p.grad.any()]
            assert changed == ["own_embeddings.word.weight"], "the tied decoder"


def test_rows_without_any_entity_train_text_alone(folder: Path) -> None:
    objective = embert(folder)
    rows = [row | {"entities": np.empty((0, 3), np.int64)} for row in random_entity_rows(SURFACES, 4)]
    values = objective(objective.collate(rows, seed=0, step=0))
    values["loss"].backward()
    torch.testing.assert_close(values["loss"], values["mlm"] + values["sop"])
    for name in ("consistency", "segmentation", "atomic", "adjective"):
        assert values[name] == 0.0
    assert all((parameter.grad == 0).all() for parameter in objective.consistency.parameters())
    objective.eval()
    rates = objective.rates(objective.metrics(objective.collate(rows, seed=0, step=0)))
    assert np.isnan(rates["consistency_accuracy"])
    assert np.isfinite(rates["loss"])


def test_micro_batches_add_up_to_the_whole_batch(folder: Path) -> None:
    objective, rows = embert(folder), random_entity_rows(SURFACES, 12)
    whole = objective(objective.collate(rows, seed=1, step=0))
    cut = [list(range(0, 12, 3)), [1, 2, 4, 5, 7, 8], [10, 11]]
    parts = [objective.collate([rows[i] for i in some], seed=1, step=0, row_indices=some) for some in cut]
    added = [objective(part, share) for part, share in zip(parts, objective.survey(parts), strict=True)]
    for term in objective.terms:
        torch.testing.assert_close(sum(one[term.name] for one in added), whole[term.name], rtol=1e-5, atol=1e-6)


def test_rates_count_right_answers_and_state_chance(folder: Path) -> None:
    objective = embert(folder).eval()
    rows = random_entity_rows(SURFACES, 40)
    batch = objective.collate(rows, seed=2, step=0)
    rates = objective.rates(objective.metrics(batch))
    assert tuple(rates) == objective.held_out_figures
    assert rates["loss"] == pytest.approx(float(objective(batch)["loss"].detach()), rel=1e-5)
    hidden = objective.hidden(batch)
    targets = batch.segmentation
    right = objective.segmentation(hidden[targets["tokens"]]).argmax(1) == targets["labels"]
    unseen = torch.tensor([bool(SURFACES.unseen[one.surface]) for one in occurrences(objective, rows, 2, 0)[1]])
    assert rates["segmentation_accuracy"] == pytest.approx(float(right.float().mean()))
    ends = float(targets["labels"].float().mean())
    assert rates["segmentation_chance"] == pytest.approx(max(ends, 1 - ends))
    own = targets["unseen"]
    assert 0 < own.sum() < len(own) and unseen.any()
    assert rates["segmentation_unseen_count"] == own.sum()
    assert rates["segmentation_unseen_accuracy"] == pytest.approx(float(right[own].float().mean()))
    atomic = batch.atomic
    y = objective.term(hidden[atomic["first"]], hidden[atomic["last"]], atomic["offsets"])
    right = (y @ objective.encoder.embeddings.word.weight.T).argmax(1) == atomic["original"]
    assert rates["atomic_accuracy"] == pytest.approx(float(right.float().mean()))
    assert rates["atomic_chance"] == pytest.approx(float((atomic["original"] == 30).float().mean()))
    assert rates["adjective_chance"] == pytest.approx(float((batch.adjective["original"] == 31).float().mean()))


def test_chance_is_the_more_frequent_label(folder: Path) -> None:
    objective, rows = embert(folder).eval(), random_entity_rows(SURFACES, 24)
    shares = []
    for step in range(8):
        batch = objective.collate(rows, seed=3, step=step)
        shares.append(float(batch.consistency["labels"].float().mean()))
        rates = objective.rates(objective.metrics(batch))
        assert rates["consistency_chance"] == pytest.approx(max(shares[-1], 1 - shares[-1]))
    assert min(shares) < 0.5 < max(shares)


@pytest.mark.parametrize("variant", ablations("embert"), ids=lambda variant: variant.name)
def test_ablations_leave_out_head_term_and_corruption(variant: Any, folder: Path) -> None:
    switches = {key.removeprefix("model."): value for key, value in variant.overrides.items()}
    objective = embert(folder, **switches)
    names = [term.name for term in objective.terms]
    batch = objective.collate(random_entity_rows(SURFACES, 24), seed=0, step=0)
    assert ("consistency" in names) == (len(batch.consistency["labels"]) > 0) == (objective.consistency is not None)
    assert ("atomic" in names) == (len(batch.atomic["original"]) > 0) == (objective.term is not None)
    assert ("segmentation" in names) == (objective.segmentation is not None)
    assert names[:2] == ["mlm", "sop"]
    values = objective(batch)
    values["loss"].backward()
    assert all(parameter.grad is not None for parameter in objective.parameters())
    assert set(values) >= {"loss", *names}


@pytest.mark.parametrize("rate", [0.075, 0.15, 0.25])
def test_corruption_rate_of_table_5_is_one_setting(rate: float, folder: Path) -> None:
    objective = embert(folder, mask_probability=rate, replace_probability=None, term_probability=None)
    rows = random_entity_rows(SURFACES, 600)
    batch = objective.collate(rows, seed=0, step=0)
    able = sum(bool(SURFACES.group[surface] >= 0) for row in rows for surface in row["entities"][:, 2])
    assert len(batch.consistency["labels"]) / able == pytest.approx(rate * 0.75, rel=0.35)  # some are beside letters
    assert len(batch.selected) / batch.tokens == pytest.approx(rate, rel=0.35)


@pytest.mark.parametrize("positions", ["absolute", "rotary"])
def test_export_is_bert_with_its_heads(positions: str, folder: Path, tmp_path: Path) -> None:
    objective = embert(folder, positions=positions).eval()
    save_pretrained(objective, tmp_path / "encoder")
    model = AutoModel.from_pretrained(tmp_path / "encoder").eval()
    batch = objective.collate(random_entity_rows(SURFACES, 1), seed=0, step=0)
    with torch.no_grad():
        theirs = model(batch.input_ids[None], token_type_ids=batch.type_ids[None]).last_hidden_state[0]
        torch.testing.assert_close(objective.hidden(batch), theirs, rtol=1e-5, atol=1e-5)
    if positions == "absolute":
        save_pretrained(objective, tmp_path / "whole", "pre_training")
        _, report = BertForPreTraining.from_pretrained(tmp_path / "whole", output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]


def test_it_learns_what_it_is_trained_for(folder: Path) -> None:
    """The rows are random: what can be learnt is how each entity was replaced in one of two draws."""
    objective, rows = embert(folder), random_entity_rows(SURFACES, 16)
    optimizer = torch.optim.Adam(objective.parameters(), 1e-2)
    losses: dict[str, list[float]] = {term.name: [] for term in objective.terms}
    for step in range(80):
        values = objective(objective.collate(rows, seed=0, step=step % 2))
        optimizer.zero_grad()
        values["loss"].backward()
        optimizer.step()
        for name, of_term in losses.items():
            of_term.append(float(values[name]))
    for name in ("consistency", "segmentation", "atomic", "adjective"):
        assert np.mean(losses[name][-10:]) < 0.85 * np.mean(losses[name][:10]), name


def test_without_surfaces_a_batch_is_refused() -> None:
    objective = build("embert", TINY)
    with pytest.raises(ValueError, match="embert needs entity_surfaces: call attach"):
        objective.collate(random_entity_rows(SURFACES, 1), seed=0, step=0)
    with pytest.raises(ValueError, match="embert takes no 'knowledge'; it takes entity_surfaces"):
        objective.attach("knowledge", Path("."))


def test_flops_count_what_the_heads_do(folder: Path) -> None:
    objective = embert(folder)
    batch = objective.collate(random_entity_rows(SURFACES, 24), seed=0, step=0)
    plain = embert(folder, consistency_weight=0.0, segmentation_weight=0.0, bidirectional_weight=0.0)
    width, size, table = 24, 10, 300 * 24
    heads = len(batch.consistency["labels"]) * (2 * width * width + 2 * width)
    heads += len(batch.segmentation["labels"]) * (2 * width * width + 2 * width)
    terms = len(batch.atomic["original"]) + len(batch.adjective["original"])
    heads += terms * ((2 * width + size) * width + width * width + table)
    assert objective.flops(batch) - plain.flops(batch) == pytest.approx(6.0 * heads)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pair_task": "nsp"}, "pair_task must be none or sop, got 'nsp'; EMBERT has no random pairs"),
        ({"consistency_weight": -1.0}, r"consistency_weight must be 0 \(off\) or positive"),
        ({"replace_probability": 0.0}, r"replace_probability must lie in \(0, 1\], or be None"),
        ({"wrong_entity": "any"}, "wrong_entity must be random or as_frequent, got 'any'"),
        ({"term_positions": 0}, "term_positions must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("embert", TINY | settings)
