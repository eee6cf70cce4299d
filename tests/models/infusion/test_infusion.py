"""Equations 2 to 11 against plain ones for each mention, and what must hold of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.infusion.config import InfusionConfig
from models.infusion.infusion import KnowledgeInfusion
from models.infusion.neighbourhood import Neighbourhood
from models.infusion.spans import Spans
from models.knowledge import KnowledgeArrays
from tests.support.graphs.knowledge_folders import save_knowledge
from tests.support.training.plain_infusion import (
    plain_alphas,
    plain_betas,
    plain_knowledge,
    plain_span,
    plain_tokens,
)

TOKENS, WIDTH, SIZE = 14, 8, 6
FIRSTS, BEHINDS = np.array([1, 5, 8]), np.array([4, 6, 12])
ENTITIES = np.array([0, 4, 1])
# Entity 4 has no neighbours, entity 1 fewer than others; the types of 3 and 5 are unknown.
NEIGHBOURS = [
    [(1, [(0, 1)]), (2, [(1, -1)]), (3, [(0, 1)]), (5, [(0, 1)])],
    [(0, [(0, -1)]), (5, [(1, 1)])],
    [(0, [(1, 1)])],
    [],
    [],
    [],
]
TYPES = [0, 1, 1, -1, 0, -1]


@pytest.fixture
def knowledge(tmp_path) -> KnowledgeArrays:
    return KnowledgeArrays.open(save_knowledge(tmp_path, NEIGHBOURS, relations=2, width=SIZE, types=TYPES))


def built(**settings) -> KnowledgeInfusion:
    torch.manual_seed(3)
    model = KnowledgeInfusion(InfusionConfig(hidden_size=WIDTH, entity_size=SIZE, **settings)).double()
    for parameter in model.parameters():  # far from zero, so that every term counts
        nn.init.normal_(parameter, std=0.7)
    return model


def states() -> Tensor:
    return torch.randn(TOKENS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def near(knowledge: KnowledgeArrays, entities=ENTITIES, k: int = 10) -> Neighbourhood:
    found = Neighbourhood.of(knowledge, entities, k)
    return replace(found, vectors=found.vectors.double())


def listed(knowledge: KnowledgeArrays, entity: int, k: int = 10) -> tuple[list[Tensor], list[int]]:
    rows = [other for other, _ in NEIGHBOURS[entity][:k] if knowledge.has_vector[other]]
    return [torch.tensor(knowledge.entity_vectors[row], dtype=torch.float64) for row in rows], [
        TYPES[row] for row in rows
    ]


def close(ours: Tensor, plain: Tensor) -> bool:
    return torch.allclose(ours.double(), plain, atol=2e-6)


def test_pooled_spans_are_those_of_each_mention_alone():
    model, hidden = built(), states()
    ours = model.span(hidden, Spans.of(FIRSTS, BEHINDS))
    for m, (first, behind) in enumerate(zip(FIRSTS, BEHINDS, strict=True)):
        assert close(ours[m], plain_span(model.span, hidden[first:behind]))


def test_attentions_are_those_of_each_mention_alone_and_add_up_to_one(knowledge):
    model, hidden, found = built(), states(), near(knowledge)
    mentions = model.span(hidden, Spans.of(FIRSTS, BEHINDS))
    alphas = model.attention.type_attention(mentions, found)
    betas, known = model.attention.weights(mentions, found), model.attention(mentions, found)
    for m, entity in enumerate(ENTITIES):
        vectors, kinds = listed(knowledge, entity)
        assert not alphas[m, len(kinds) :].any() and not betas[m, len(kinds) :].any()
        if not kinds:
            continue
        expected = plain_alphas(model, mentions[m], vectors, kinds)
        assert close(alphas[m, : len(kinds)], torch.stack([expected[kind] for kind in kinds]))
        assert sum(dict(zip(kinds, alphas[m].tolist(), strict=False)).values()) == pytest.approx(1, abs=1e-6)
        assert close(betas[m, : len(kinds)], torch.stack(plain_betas(model, mentions[m], vectors, kinds)))
        assert betas[m].sum().item() == pytest.approx(1, abs=1e-6)
        assert close(known[m], plain_knowledge(model, mentions[m], vectors, kinds))


@pytest.mark.parametrize("k", [1, 2, 30])
@pytest.mark.parametrize("type_attention", [True, False])
def test_states_are_those_of_each_mention_alone(knowledge, k, type_attention):
    model, hidden = built(type_attention=type_attention), states()
    ours = model(hidden, Spans.of(FIRSTS, BEHINDS), near(knowledge, k=k))
    expected = hidden.clone()
    for first, behind, entity in zip(FIRSTS, BEHINDS, ENTITIES, strict=True):
        if NEIGHBOURS[entity]:
            expected[first:behind] = plain_tokens(model, hidden[first:behind], *listed(knowledge, entity, k))
    assert close(ours, expected)
    assert not torch.equal(ours, hidden)


def test_only_tokens_of_mentions_with_neighbours_change(knowledge):
    hidden = states()
    ours = built()(hidden, Spans.of(FIRSTS, BEHINDS), near(knowledge))
    changed = (ours != hidden).any(1).nonzero().flatten().tolist()
    assert changed == [1, 2, 3, 8, 9, 10, 11]  # the mention at 5 has no neighbours


def test_batches_without_mentions_or_without_any_neighbour_keep_their_states(knowledge):
    model, hidden, none = built(), states(), np.empty(0, dtype=np.int64)
    assert torch.equal(model(hidden, Spans.of(none, none), near(knowledge, none)), hidden)
    lonely = model(hidden, Spans.of(FIRSTS, BEHINDS), near(knowledge, np.array([4, 5, 3])))
    assert torch.equal(lonely, hidden)


def test_the_order_of_neighbours_does_not_matter(knowledge):
    model, hidden, spans, found = built(), states(), Spans.of(FIRSTS, BEHINDS), near(knowledge)
    order = torch.tensor([2, 0, 3, 1])
    moved = replace(found, places=found.places[:, order], types=found.types[:, order], known=found.known[:, order])
    assert close(model(hidden, spans, moved), model(hidden, spans, found))


def test_neighbours_without_a_vector_are_left_out(tmp_path):
    folder = save_knowledge(tmp_path, NEIGHBOURS, relations=2, width=SIZE, types=TYPES)
    has_vector = np.ones(len(NEIGHBOURS), dtype=bool)
    has_vector[[1, 2]] = False
    np.save(folder / "has_vector.npy", has_vector)
    knowledge = KnowledgeArrays.open(folder)
    found = Neighbourhood.of(knowledge, ENTITIES, 10)
    assert found.known.sum(1).tolist() == [2, 0, 2]
    model, hidden = built(), states()
    ours = model(hidden, Spans.of(FIRSTS, BEHINDS), near(knowledge))
    assert close(ours[1:4], plain_tokens(model, hidden[1:4], *listed(knowledge, 0)))


def test_gradients_of_mentions_without_neighbours_are_those_of_identity(knowledge):
    model, hidden = built(), states().requires_grad_()
    model(hidden, Spans.of(FIRSTS[1:2], BEHINDS[1:2]), near(knowledge, ENTITIES[1:2])).sum().backward()
    assert torch.equal(hidden.grad, torch.ones_like(hidden))
    assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_all_weights_learn_from_a_mention_with_several_types(knowledge):
    model = built()
    weights = torch.randn(TOKENS, WIDTH, dtype=torch.float64)  # a plain sum of normalised rows has no gradient
    (model(states(), Spans.of(FIRSTS, BEHINDS), near(knowledge)) * weights).sum().backward()
    assert [name for name, parameter in model.named_parameters() if not parameter.grad.any()] == []


def test_float32_and_bfloat16_products_give_nearly_the_same(knowledge):
    model, hidden = built().float(), states().float()
    spans, found = Spans.of(FIRSTS, BEHINDS), Neighbourhood.of(knowledge, ENTITIES, 10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model(hidden, spans, found)
    assert rounded.dtype == torch.float32
    assert torch.allclose(rounded, model(hidden, spans, found), atol=0.1)


def test_mentions_that_share_a_token_or_have_none_are_refused():
    with pytest.raises(ValueError, match="share a token"):
        Spans.of(np.array([1, 3]), np.array([4, 6]))
    with pytest.raises(ValueError, match="mention 1 is empty"):
        Spans.of(np.array([1, 6]), np.array([4, 6]))


@pytest.mark.parametrize("name", ["hidden_size", "entity_size", "layer", "neighbours"])
def test_sizes_must_be_positive(name):
    with pytest.raises(ValueError, match=name):
        InfusionConfig(**{name: 0})


def test_fresh_weights_are_berts():
    torch.manual_seed(0)
    fresh = KnowledgeInfusion(InfusionConfig(hidden_size=64, entity_size=48, initializer_range=0.05))
    for name, weight in fresh.named_parameters():
        if weight.ndim == 2:
            assert weight.std().item() == pytest.approx(0.05, rel=0.15), name
        elif name.endswith("bias"):
            assert not weight.any(), name
