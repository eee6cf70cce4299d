"""The joint head of entities and relations: loss and gradients by its formula, and what pointers decode to."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models import heads
from models.heads import triples
from models.heads.examples import HeadExample, Pointers
from models.heads.triples import Triples, decode_entities
from tests.support.heads.tiny_heads import SIZES


def plain_losses(model: Triples, examples: list[HeadExample]) -> tuple[Tensor, Tensor]:
    """Both terms, with every score in memory: s_k(i, j) = h_i U_k h_j + a_k h_i + c_k h_j + b_k."""
    batch = model.collate(examples)
    hidden = model.encode(batch).split(batch.layout.lengths)
    relations, width = model.num_labels, hidden[0].shape[1]
    u_RDD = model.selection.weight.view(relations, width, width)  # row: the object's side
    pointer_losses, relation_losses = [], []
    for example, place in zip(examples, batch.places.tolist(), strict=True):
        h = hidden[place]
        s = torch.einsum("id,ked,je->kij", h, u_RDD, h)
        s = s + (h @ model.subject.weight.T + model.subject.bias).T[:, :, None]
        s = s + (model.selection.bias.view(relations, width) @ h.T)[:, None, :]
        y, marks = torch.zeros_like(s), torch.zeros(len(h), 2)
        for i, k, j in example.target.relations:
            y[k, i, j] = 1.0
        for first, last in example.target.entities:
            marks[first, 0], marks[last, 1] = 1.0, 1.0
        p = (h @ model.pointer.weight.T + model.pointer.bias).sigmoid()
        pointer_losses.append(F.binary_cross_entropy(p, marks, reduction="none").flatten())
        relation_losses.append(F.binary_cross_entropy_with_logits(s, y, reduction="none").flatten())
    return torch.cat(pointer_losses).mean(), torch.cat(relation_losses).mean()


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_loss_and_gradients_are_the_formula_s(
    chunk: int, monkeypatch: pytest.MonkeyPatch, make_model: Callable, make_examples: Callable
) -> None:
    monkeypatch.setitem(triples._CHUNK_ELEMENTS, "cpu", chunk)  # 1: a relation at a time
    model, examples = make_model("triples").eval(), make_examples("triples")
    torch.nn.init.normal_(model.selection.weight, std=0.05)
    torch.nn.init.normal_(model.selection.bias, std=0.5)
    model.subject.bias.data.uniform_(-1, 1)
    losses = model(model.collate(examples))
    entity, relation = plain_losses(model, examples)
    torch.testing.assert_close(losses["entity"], entity)
    torch.testing.assert_close(losses["relation"], relation)
    torch.testing.assert_close(losses["loss"], entity + 50 * relation)

    names, parameters = zip(*model.named_parameters(), strict=True)
    ours = torch.autograd.grad(losses["loss"], parameters)
    plain = torch.autograd.grad(entity + 50 * relation, parameters)
    for name, a, b in zip(names, ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("prior", [0.01, 0.2])
def test_fresh_weights_give_every_relation_its_prior(
    prior: float, make_model: Callable, make_examples: Callable
) -> None:
    model, examples = make_model("triples", relation_prior=prior).eval(), make_examples("triples")
    scores = model._scores(model.encode(model.collate(examples))).sigmoid()
    assert scores.mean().item() == pytest.approx(prior, rel=0.1)
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="relation_prior must be in"):
            make_model("triples", relation_prior=wrong)


def test_relation_named_twice_counts_once(make_model: Callable, make_examples: Callable) -> None:
    model, (example, *_) = make_model("triples").eval(), make_examples("triples")
    target = example.target
    doubled = Pointers(np.repeat(target.entities, 2, 0), np.repeat(target.relations, 2, 0))
    once, twice = (model(model.collate([HeadExample(example.sequences, t)]))["loss"] for t in (target, doubled))
    assert once.item() == twice.item()


def test_predicted_scores_are_those_of_the_loss(make_model: Callable, make_examples: Callable) -> None:
    model, examples = (
        make_model("triples", entity_threshold=0.0, relation_threshold=0.0).eval(),
        make_examples("triples"),
    )
    torch.nn.init.normal_(model.selection.weight, std=0.05)
    batch = model.collate(examples[:1])
    with torch.no_grad():
        h = model.encode(batch)
        found = model.predict(batch)[0]  # thresholds of 0: every token starts an entity, every relation holds
    u = model.selection.weight.view(4, 32, 32)
    for (i, k, j), score in zip(found.relations, found.scores, strict=True):
        s = h[j] @ u[k] @ h[i] + model.subject(h[i : i + 1])[0, k] + model.selection.bias.view(4, 32)[k] @ h[j]
        assert score == pytest.approx(s.sigmoid().item(), abs=1e-5)
    assert len(found.relations) == 4 * len(h) ** 2


def test_no_entity_means_no_relation(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("triples", entity_threshold=1.0).eval(), make_examples("triples")
    found = model.predict(model.collate(examples[:1]))[0]
    assert found.entities.shape == (0, 2) and found.relations.shape == (0, 3) and found.scores.shape == (0,)


@pytest.mark.parametrize(
    ("starts", "ends", "entities"),
    [
        ("100100", "010010", [(0, 1), (3, 4)]),
        ("100000", "010010", [(0, 1), (0, 4)]),  # several ends for one start
        ("101000", "000010", [(0, 4), (2, 4)]),  # two starts share an end
        ("100000", "100000", [(0, 0)]),
        ("000100", "110000", []),  # no end follows
        ("000000", "111111", []),
    ],
)
def test_starts_take_their_ends(starts: str, ends: str, entities: list[tuple[int, int]]) -> None:
    marks = [np.array([mark == "1" for mark in text]) for text in (starts, ends)]
    assert [tuple(row) for row in decode_entities(*marks)] == entities


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_decoding_agrees_with_its_rule(marks: list[tuple[bool, bool]]) -> None:
    starts, ends = (np.array(column) for column in zip(*marks, strict=True))
    expected = set()
    for start in np.flatnonzero(starts):
        after = [end for end in np.flatnonzero(ends) if end >= start]
        own = [end for end in after if not starts[start + 1 : end + 1].any()]
        expected |= {(start, end) for end in own or after[:1]}
    found = [tuple(row) for row in decode_entities(starts, ends)]
    assert set(found) == expected and len(found) == len(expected)
    assert all(starts[first] and ends[last] and first <= last for first, last in found)


def test_disjoint_entities_survive_marking_and_decoding() -> None:
    for lengths in product((1, 3), repeat=3):
        firsts = np.cumsum((1, *lengths[:-1])) + np.arange(3)
        entities = [(first, first + length - 1) for first, length in zip(firsts, lengths, strict=True)]
        marks = np.zeros((2, 14), dtype=bool)
        for first, last in entities:
            marks[0, first] = marks[1, last] = True
        assert [tuple(row) for row in decode_entities(*marks)] == entities


def test_selection_has_a_matrix_for_each_relation() -> None:
    model = heads.build("triples", {"vocab_size": 9, "hidden_size": 8, "num_layers": 1, "num_heads": 2}, num_labels=44)
    own = sum(p.numel() for name, p in model.named_parameters() if not name.startswith("encoder."))
    assert own == (8 * 2 + 2) + 44 * (8 * 8 + 8 + 8 + 1)


def test_one_relation_is_enough_and_none_is_an_error() -> None:
    assert heads.build("triples", SIZES, num_labels=1).num_labels == 1
    with pytest.raises(ValueError, match="num_labels"):
        heads.build("triples", SIZES, num_labels=0)
