"""SMedBERT's losses against equations written out for one mention at a time, and what must hold of a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from infra.errors import UserError
from models.encoder.layout import Layout
from models.encoder.randomness import Stream, uniforms
from models.knowledge import KnowledgeArrays
from models.objectives import build
from models.objectives.parts.pair_order import exchanged
from models.objectives.smedbert.batch import MentionBatch
from models.tokenizer.special_ids import MASK
from tests.support.training.mention_rows import NEIGHBOURS, SMEDBERT_TINY, TYPES, mention_rows, save_graph
from tests.support.training.plain_infusion import plain_span, plain_tokens

SETTINGS = SMEDBERT_TINY | {"mention_probability": 0.4, "hidden_dropout": 0.0, "attention_dropout": 0.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_graph(tmp_path)


def smedbert(folder: Path, **settings: Any) -> Any:
    torch.manual_seed(0)
    made = build("smedbert", SETTINGS | settings)
    for part in (made.infusion, made.mention):
        for parameter in part.parameters() if part is not None else ():
            nn.init.normal_(parameter, std=0.4)  # far from zero, so that every term counts
    made.attach("knowledge", folder)
    return made


def as_read(row: dict[str, Any], number: int, seed: int, step: int) -> dict[str, Any]:
    """The row with its sentences in the order in which the model reads them."""
    moved = uniforms(seed, step, number, Stream.PAIR_ORDER, 0)[0] < 0.5
    return exchanged(row, ("mentions",)) if moved else row


def uses_of(objective: Any, row: dict[str, Any], number: int, seed: int, step: int) -> Iterator[tuple[str, list[int]]]:
    """What should become of each mention."""
    config = objective.config
    for first, behind, entity, _ in row["mentions"].tolist():
        if not NEIGHBOURS[entity]:
            yield "lonely", [first, behind, entity]
        elif uniforms(seed, step, number, Stream.MENTION_USED, first)[0] >= config.hit_ratio:
            yield "left", [first, behind, entity]
        elif uniforms(seed, step, number, Stream.MENTION_MASKED, first)[0] < config.masked_mentions:
            yield "masked", [first, behind, entity]
        else:
            yield "predicting", [first, behind, entity]


def states_by_row(batch: MentionBatch, tensor: Tensor) -> dict[int, Tensor]:
    return dict(zip(batch.rows.tolist(), tensor.split(list(batch.layout.lengths)), strict=True))


def same_type(entity: int) -> list[int]:
    return [other for other in range(len(TYPES)) if TYPES[other] == TYPES[entity]]


def plain_q(entity: int) -> float:
    """t_e / C_e; entity e is mentioned e times, and counts once at least."""
    return max(entity, 1) / sum(max(other, 1) for other in same_type(entity))


def plain_negatives(objective: Any, number: int, first: int, rank: int, entity: int, seed: int, step: int) -> list[int]:
    count, kin, found = objective.config.negatives, same_type(entity), []
    for place in range(count):
        counter = ((first << 16) + rank) * count + place
        left = uniforms(seed, step, number, Stream.NEGATIVE_ENTITY, counter)[0]
        for other in kin:
            left -= plain_q(other)
            if left < 0:
                break
        found.append(other)
    return found


def plain_score(known: KnowledgeArrays, form: str, h: Tensor, relation: int, sign: int, entity: int) -> Tensor:
    """Eq. 16, or the cosine of Eq. 19, times 10."""
    e, v = (
        torch.tensor(some[row]) for some, row in ((known.entity_vectors, entity), (known.relation_vectors, relation))
    )
    M = torch.tensor(known.projections[relation])
    if form == "eq19":
        P = torch.cat([M, v.unsqueeze(0)]) @ torch.cat([M, v.unsqueeze(0)]).T
        return 10 * F.cosine_similarity(torch.cat([h, torch.tensor([float(sign)])]) @ P, F.pad(e, (0, 1)), dim=0)
    return 10 * F.cosine_similarity(h @ M + sign * v, e @ M, dim=0)


def plain_losses(objective: Any, rows: list[dict[str, Any]], batch: MentionBatch, seed: int, step: int) -> dict:
    """Means of MNeM and MMeM, one mention after the other, and what was counted."""
    known, config, encoder = objective.known.knowledge, objective.config, objective.encoder
    ids_of, type_of = states_by_row(batch, batch.input_ids), states_by_row(batch, batch.type_ids)
    losses: dict[str, list[Tensor]] = {"mnem": [], "mmem": []}
    correct = 0
    for number, given in enumerate(rows):
        row = as_read(given, number, seed, step)
        uses = list(uses_of(objective, row, number, seed, step))
        layout = Layout.from_lengths([len(row["input_ids"])])
        x = encoder.embed(ids_of[number], layout, type_of[number])
        x = encoder.run(x, layout, last=config.infusion_layer)
        states = x.clone()
        for use, (first, behind, entity) in uses:
            if use == "masked" and objective.infusion is not None:
                others = [other for other, _ in NEIGHBOURS[entity][: config.neighbours]]
                vectors = [torch.tensor(known.entity_vectors[other]) for other in others]
                states[first:behind] = plain_tokens(
                    objective.infusion, x[first:behind], vectors, [TYPES[o] for o in others]
                )
        states = encoder.run(states, layout, first=config.infusion_layer)
        for use, (first, behind, entity) in uses:
            h = plain_span(objective.mention, states[first:behind]) if use in ("masked", "predicting") else None
            if use == "masked":
                words = encoder.embeddings.word.weight[torch.tensor(row["input_ids"][first:behind]).long()]
                target = plain_span(objective.mention, words).detach()
                losses["mmem"].append(((h - target) ** 2).mean())
            if use != "predicting":
                continue
            near = [other for other, _ in NEIGHBOURS[entity][: config.neighbours]]
            for rank, (other, triples) in enumerate(NEIGHBOURS[entity][: config.neighbours]):
                relation, sign = triples[0]
                drawn = plain_negatives(objective, number, first, rank, other, seed, step)
                candidates = [other, *(one for one in drawn if one not in near)]
                if len(candidates) == 1:
                    continue
                form = config.neighbour_score
                scores = torch.stack([plain_score(known, form, h, relation, sign, one) for one in candidates])
                factor = 10 if form == "eq19" else 1
                logits = scores - factor * torch.tensor([math.log(plain_q(one)) for one in candidates])
                losses["mnem"].append(-(logits[0].exp() / logits.exp().sum()).log())
                correct += int(scores[0] > scores[1:].max())
    means = {name: torch.stack(some).mean() for name, some in losses.items()}
    return means | {"pairs": len(losses["mnem"]), "masked": len(losses["mmem"]), "correct": correct}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"neighbour_score": "eq16"},
        {"neighbour_score": "eq19"},
        {"type_attention": False},
        {"infusion": False},
        {"hit_ratio": 0.5, "neighbours": 30},
    ],
)
def test_losses_and_gradients_are_those_of_the_equations(folder: Path, settings: dict[str, Any]) -> None:
    objective, rows = smedbert(folder, **settings), mention_rows(24)
    batch = objective.collate(rows, seed=5, step=3)
    values = objective(batch)
    expected = plain_losses(objective, rows, batch, 5, 3)
    assert batch.pairs.count == expected["pairs"] > 30 and batch.masked.count == expected["masked"] > 5
    for name in ("mnem", "mmem"):
        torch.testing.assert_close(values[name], expected[name].detach(), rtol=1e-4, atol=1e-5)
    whole = values["mlm"] + values["sop"] + 2 * expected["mnem"] + 4 * expected["mmem"]
    torch.testing.assert_close(values["loss"], whole, rtol=1e-4, atol=1e-4)
    assert int(objective.metrics(batch)["mnem_correct"]) == expected["correct"]

    values["loss"].backward()
    own = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    whole.backward()
    for name, parameter in objective.mention.named_parameters():
        torch.testing.assert_close(own[f"mention.{name}"], parameter.grad, rtol=1e-3, atol=1e-5)


def test_mentions_are_masked_whole_or_left_whole(folder: Path) -> None:
    objective, rows = smedbert(folder, mask_probability=0.5, hit_ratio=0.7), mention_rows(16)
    batch = objective.collate(rows, seed=1, step=0)
    ids, offsets = (
        states_by_row(batch, batch.input_ids),
        dict(zip(batch.rows.tolist(), batch.layout.firsts.tolist(), strict=True)),
    )
    selected = dict(zip(batch.selected.tolist(), batch.original.tolist(), strict=True))
    counted = dict.fromkeys(("lonely", "left", "masked", "predicting"), 0)
    assert batch.selected.tolist() == sorted(selected) and sum(batch.selected_counts) == len(selected)
    for number, given in enumerate(rows):
        row = as_read(given, number, 1, 0)
        for use, (first, behind, _) in uses_of(objective, row, number, 1, 0):
            counted[use] += 1
            places = range(offsets[number] + first, offsets[number] + behind)
            original = row["input_ids"][first:behind].tolist()
            if use == "masked":
                assert (ids[number][first:behind] == MASK).all() and [selected[one] for one in places] == original
            if use == "predicting":
                assert ids[number][first:behind].tolist() == original and not selected.keys() & set(places)
    assert min(counted.values()) > 3
    assert (batch.mentions, batch.lonely) == (sum(counted.values()), counted["lonely"])


def test_nothing_of_a_masked_mention_is_seen(folder: Path) -> None:
    """Its own tokens, changed, change no state and no prediction: only what is asked for."""
    objective, rows = smedbert(folder).eval(), mention_rows(8)
    batch = objective.collate(rows, seed=5, step=3)
    changed = []
    for number, given in enumerate(rows):
        moved = as_read(given, number, 5, 3)["second"] != given["second"]
        masked = [m for use, m in uses_of(objective, as_read(given, number, 5, 3), number, 5, 3) if use == "masked"]
        ids = given["input_ids"].copy()
        for first, behind, _ in given["mentions"][:, :3].tolist():
            read = exchanged({**given, "mentions": np.array([[first, behind, 0, 0]])}, ("mentions",))["mentions"][0]
            if (int(read[0]) if moved else first) in [one[0] for one in masked]:
                ids[first:behind] = 7 + np.arange(behind - first)
        changed.append({**given, "input_ids": ids})
    other = objective.collate(changed, seed=5, step=3)
    assert not torch.equal(other.original, batch.original)
    assert torch.equal(other.input_ids, batch.input_ids)
    assert torch.equal(objective.hidden(other), objective.hidden(batch))
    assert torch.equal(
        objective.mention(objective.hidden(other), other.masked),
        objective.mention(objective.hidden(batch), batch.masked),
    )


def gradients(objective: Any, batch: MentionBatch, term: str) -> set[str]:
    """Parts that a term's loss has a gradient for."""
    objective.zero_grad()
    objective.outcome(batch, measure=False).sums[term].backward()
    return {name.split(".")[0] for name, p in objective.named_parameters() if p.grad is not None and bool(p.grad.any())}


def test_gradients_reach_what_they_should(folder: Path) -> None:
    objective = smedbert(folder)
    batch = objective.collate(mention_rows(8), seed=0, step=0)
    assert gradients(objective, batch, "mnem") == {"encoder", "infusion", "mention"}
    assert gradients(objective, batch, "mmem") == {"encoder", "infusion", "mention"}
    assert gradients(objective, batch, "mlm") == {"encoder", "infusion", "head"}
    # The target of Eq. 20 has none: words that only masked mentions have are not moved by it.
    objective.zero_grad()
    objective.outcome(batch, measure=False).sums["mmem"].backward()
    unseen = set(batch.masked_ids.tolist()) - set(batch.input_ids.tolist())
    assert unseen and not objective.encoder.embeddings.word.weight.grad[sorted(unseen)].any()


def test_predicting_mentions_get_no_knowledge(folder: Path) -> None:
    objective = smedbert(folder, infusion_layer=2)  # after the last layer, so that no attention spreads it
    batch = objective.collate(mention_rows(8), seed=0, step=0)
    with_it = objective.hidden(batch)
    without = objective.encoder(batch.input_ids, batch.layout, batch.type_ids)
    changed = (with_it != without).any(1).nonzero().flatten().tolist()
    assert changed == sorted(batch.masked.tokens.tolist())


def test_equation_18_is_the_same_number_as_16(folder: Path) -> None:
    found = {}
    for form in ("eq16", "eq18", "eq19"):
        objective = smedbert(folder, neighbour_score=form)
        pairs = objective.collate(mention_rows(8), seed=0, step=0).pairs
        h = torch.randn(int(pairs.mentions.max()) + 1, 6, generator=torch.Generator().manual_seed(1))
        found[form] = objective.known.scorer.scores(h, pairs)
    torch.testing.assert_close(found["eq18"], found["eq16"], rtol=1e-4, atol=1e-4)
    assert (found["eq19"] - found["eq16"]).abs().max() > 1  # another function, as its note says


def test_a_rare_candidate_has_its_logit_raised(folder: Path) -> None:
    """log Q is taken off once: among equal scores the rarer entity has the higher logit."""
    objective = smedbert(folder)
    pairs = objective.collate(mention_rows(8), seed=0, step=0).pairs
    logits = objective.known.scorer.logits(torch.zeros_like(pairs.log_q), pairs)
    torch.testing.assert_close(logits[pairs.allowed], -pairs.log_q[pairs.allowed])
    rare, frequent = objective.known.sampler.log_q(np.array([3, 7]))  # of one type, mentioned 3 and 7 times
    assert -rare > -frequent and math.isclose(frequent - rare, math.log(7 / 3), rel_tol=1e-5)


def test_the_sampled_softmax_is_that_of_all_entities_on_average(folder: Path) -> None:
    """With n negatives minus log(n Q), exp(score) added over negatives estimates the sum over the type."""
    sampler = smedbert(folder).known.sampler
    draws = sampler.draw(np.full(20_000, 0), np.random.default_rng(0).random((20_000, 1)))[:, 0]
    kin = same_type(0)
    assert set(draws.tolist()) <= set(kin)
    shares = np.bincount(draws, minlength=len(TYPES))[kin] / len(draws)
    np.testing.assert_allclose(shares, [plain_q(one) for one in kin], atol=0.01)
    scores = np.linspace(-1, 1, len(TYPES))
    estimate = np.exp(scores[draws] - sampler.log_q(draws)).mean()
    assert estimate == pytest.approx(np.exp(scores[kin]).sum(), rel=0.02)


def test_a_drawn_relation_is_any_of_the_pairs(folder: Path) -> None:
    """Entity 2 is joined to its first neighbour by relation 1 as the head, and by relation 0 as the tail."""
    rows = [row | {"mentions": np.array([[1, 3, 2, 0]])} for row in mention_rows(60)]
    found = {}
    for choice in ("first", "drawn"):
        pairs = smedbert(folder, relation_choice=choice).collate(rows, seed=0, step=0).pairs
        found[choice] = {relation: pairs.signs[first:end] for relation, first, end, _, _ in pairs.runs}
    assert set(found["first"]) == {1, 2}
    drawn = found["drawn"][0]
    assert (drawn == -1).all() and 8 < len(drawn) < 28  # of at most 36 pairs, half


@pytest.mark.parametrize("step", range(3))
def test_a_row_is_treated_alike_in_any_batch(folder: Path, step: int) -> None:
    objective, rows = smedbert(folder), mention_rows(8)
    whole = objective.metrics(objective.collate(rows, seed=2, step=step))
    parts = [objective.collate(rows[i : i + 2], seed=2, step=step, row_indices=[i, i + 1]) for i in (4, 2, 0, 6)]
    added = [objective.metrics(part) for part in parts]
    for name, value in whole.items():
        assert float(sum(one[name] for one in added)) == pytest.approx(float(value), rel=1e-4, abs=1e-4), name


def test_figures_have_their_chance_levels(folder: Path) -> None:
    objective = smedbert(folder).eval()
    rates = objective.rates(objective.metrics(objective.collate(mention_rows(30), seed=0, step=0)))
    assert set(rates) == set(objective.held_out_figures)
    assert 0.2 <= rates["neighbour_chance"] < 0.5  # one of five, less where negatives are neighbours
    assert 0 < rates["neighbour_popular"] < 1 and 0 < rates["mention_chance"] < 1 and 0.1 < rates["lonely_rate"] < 0.5
    assert rates["mention_accuracy"] <= 1


def test_rows_without_mentions_train_all_that_remains(folder: Path) -> None:
    objective = smedbert(folder)
    rows = [row | {"mentions": np.empty((0, 4), dtype=np.int64)} for row in mention_rows(4)]
    batch = objective.collate(rows, seed=0, step=0)
    values = objective(batch)
    values["loss"].backward()
    assert values["mnem"] == values["mmem"] == 0 and math.isfinite(float(values["loss"]))
    # Every parameter is in the graph, or workers with mentions would wait for this one.
    assert all(p.grad is not None and p.grad.isfinite().all() for p in objective.parameters())
    assert not any(math.isinf(value) for value in objective.rates(objective.metrics(batch)).values())


def test_entities_that_cannot_be_scored_are_counted_and_left_as_text(tmp_path: Path) -> None:
    folder = save_graph(tmp_path)
    has_vector = np.ones(len(TYPES), dtype=bool)
    has_vector[[0, 1, 3]] = False  # entity 3's only neighbour is 0
    np.save(folder / "has_vector.npy", has_vector)
    objective = smedbert(folder)
    row = mention_rows(1)[0] | {"mentions": np.array([[1, 3, 3, 0], [4, 5, 7, 0], [6, 7, 4, 0]])}
    batch = objective.collate([row], seed=0, step=0)
    assert (batch.mentions, batch.lonely) == (3, 2)
    drawn = objective.known.sampler.draw(np.full(500, 2), np.random.default_rng(0).random((500, 1)))
    assert not set(drawn.ravel().tolist()) & {0, 1, 3}


def test_what_does_not_fit_is_named(folder: Path, tmp_path: Path) -> None:
    row = mention_rows(1)[0]
    with pytest.raises(ValueError, match="needs knowledge"):
        build("smedbert", SETTINGS).collate([row], seed=0, step=0)
    with pytest.raises(UserError, match=r"Row 9 mentions entity 10 at tokens 1 to 3: .* knowledge 10 entities"):
        smedbert(folder).collate([row | {"mentions": np.array([[1, 3, 10, 0]])}], seed=0, step=0, row_indices=[9])
    length = len(row["input_ids"])
    with pytest.raises(UserError, match=rf"entity 0 at tokens {length - 2} to {length}: it has {length} tokens"):
        # The last token of a row is its [SEP].
        mentions = np.array([[length - 2, length, 0, 0]])
        smedbert(folder, pair_task="none").collate([row | {"mentions": mentions}], seed=0, step=0)
    with pytest.raises(UserError, match=r"have 6 numbers, but model.entity_size is 8.*embed.entity_dim"):
        build("smedbert", SETTINGS | {"entity_size": 8}).attach("knowledge", folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"infusion_layer": 3}, "infusion_layer=3 is not a layer"),
        ({"pair_task": "nsp"}, "pair_task must be none or sop"),
        ({"neighbour_score": "eq17"}, "neighbour_score must be one of eq18, eq16, eq19"),
        ({"relation_choice": "all"}, "relation_choice must be one of"),
        ({"hit_ratio": 0.0}, r"hit_ratio must be in \(0, 1\]"),
        ({"mention_weight": -1.0}, "mention_weight must be 0"),
        ({"negatives": 0}, "negatives must be at least 1"),
        ({"score_scale": 0.0}, "score_scale must be positive"),
        ({"neighbours": 0}, "neighbours must be a positive integer"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("smedbert", SETTINGS | settings)
