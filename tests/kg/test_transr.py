"""TransR: the score by the formula, the gradient by autograd, and a step that does not depend on how it is shared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.embedding.gradients import add_over_workers
from kg.embedding.loss import MarginLoss
from kg.embedding.workers import Workers
from kg.transe import TransE
from kg.transr import TransR
from tests.support.graphs.embedding_graphs import plain_distance, plain_loss, random_batch, randomised

sizes = st.integers(1, 6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), sizes, sizes, sizes, sizes, st.integers(0, 8))
def test_score_equals_the_formula(
    seed: int, entities: int, relations: int, dim: int, relation_dim: int, triples: int
) -> None:
    model = randomised(TransR(entities, relations, dim, relation_dim), seed, length=0.6)
    h, r, t = (torch.randint(0, size, (triples,)) for size in (entities, relations, entities))
    expected = [-plain_distance(model, *ends).item() for ends in zip(h, r, t, strict=True)]
    assert model.score(h, r, t).tolist() == pytest.approx(expected, abs=1e-12)


def test_score_equals_pykeens() -> None:
    """PyKEEN 1.11.1 with torch 2.11.0: `TransR(embedding_dim=6, relation_dim=4, scoring_fct_norm=2, power_norm=True)`
    with these weights in float64 gave these scores, −distance², by `score_hrt`. Some of the projected ends are longer
    than 1 and shortened, both ends of (2, 1, 2) and of (1, 1, 2) are not.
    """
    drawn = np.random.default_rng(2026)
    model = TransR(5, 3, 6, 4).double()
    with torch.no_grad():
        for table in (model.entities, model.relations, model.projections):
            table.copy_(torch.from_numpy(drawn.normal(size=table.shape) * 0.6))
    scores_of_pykeen = {
        (0, 0, 1): -3.314217226447041,
        (4, 0, 2): -3.921294540465853,
        (1, 0, 3): -2.909418590726318,
        (1, 1, 2): -1.649985341094095,
        (3, 1, 4): -4.08697269023171,
        (2, 1, 2): -0.6232898556474034,
        (1, 2, 2): -3.0210934147820283,
        (0, 2, 4): -0.824835618650062,
    }
    h, r, t = torch.tensor(list(scores_of_pykeen)).T
    assert (-(model.distance(h, r, t) ** 2)).tolist() == pytest.approx([*scores_of_pykeen.values()], rel=1e-12)


def test_score_broadcasts_and_accepts_numbers_and_arrays() -> None:
    model = randomised(TransR(5, 3, 4, 2), 1)
    grid = model.score(np.arange(5)[:, None], 2, torch.arange(5))
    assert grid.shape == (5, 5)
    assert grid[3, 1].item() == pytest.approx(model.score(3, 2, 1).item(), abs=1e-12)
    assert model.score(3, 2, 1).shape == ()


def test_initial_distance_is_that_of_the_entities() -> None:
    """M = I, r = 0: ‖h − t‖."""
    model = TransR(6, 2, 8, 8, seed=3)
    assert torch.equal(model.projections[1], torch.eye(8))
    with torch.no_grad():
        model.relations.zero_()
    h, t = torch.arange(6), torch.arange(6).flip(0)
    between = (model.entities[h] - model.entities[t]).norm(dim=1)
    torch.testing.assert_close(model.score(h, torch.tensor(1), t), -between)


def test_projected_entities_have_length_at_most_one() -> None:
    model = randomised(TransR(20, 2, 6, 5), 2, length=3.0)
    lengths = model.points(1).norm(dim=1)
    assert lengths.max() == pytest.approx(1)
    t = torch.arange(20)
    # ‖c(h) + r − c(t)‖ by points and translation, which ranking uses.
    by_points = (model.points(1)[3] + model.translation(1) - model.points(1)).norm(dim=1)
    torch.testing.assert_close(model.distance(3, 1, t), by_points)


def test_distance_is_smedberts_where_both_ends_obey_lins_constraint() -> None:
    """‖h M + r − t M‖ (SMedBERT, Eq. 14) up to length 1; beyond, an end is shortened to 1 first (Lin et al.)."""
    model = randomised(TransR(20, 2, 6, 5), 2, length=0.5)
    h, t = (each.ravel() for each in torch.meshgrid(torch.arange(20), torch.arange(20), indexing="ij"))
    heads, tails = (model.entities[ends] @ model.projections[1] for ends in (h, t))
    obeys = (heads.norm(dim=1) <= 1) & (tails.norm(dim=1) <= 1)
    assert obeys.any() and not obeys.all()
    plain = (heads + model.relations[1] - tails).norm(dim=1)
    torch.testing.assert_close(model.distance(h, 1, t)[obeys], plain[obeys])
    short = [ends / ends.norm(dim=1, keepdim=True).clamp(min=1) for ends in (heads, tails)]
    torch.testing.assert_close(model.distance(h, 1, t), (short[0] + model.relations[1] - short[1]).norm(dim=1))


@pytest.mark.parametrize("dims", [(6, 6), (6, 3), (3, 6)])
def test_transr_from_transe_equals_that_transe(dims: tuple[int, int]) -> None:
    transe = TransE(9, 2, dims[0], seed=5)
    model = TransR.from_transe(transe, dims[1])
    kept = min(dims)
    h, r, t = (torch.tensor(column) for column in ([0, 1, 8], [1, 0, 1], [4, 4, 2]))
    cut = transe.entities[h] + transe.relations[r] - transe.entities[t]
    torch.testing.assert_close(model.distance(h, r, t), cut[:, :kept].norm(dim=1))


@pytest.mark.parametrize("kind", ["TransR", "TransE"])
@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize(("negatives", "margin"), [(1, 1.0), (3, 0.2), (2, 0.01)])
def test_loss_and_gradient_equal_autograds(kind: str, squared: bool, negatives: int, margin: float) -> None:
    empty = TransR(7, 4, 5, 3) if kind == "TransR" else TransE(7, 4, 5)
    model = randomised(empty, 11, length=0.5)
    batch = random_batch(3, 12, 7, 4, negatives)
    loss, gradients = model.gradients(batch, MarginLoss(margin=margin, squared=squared), scale=0.25)
    plain = plain_loss(model, batch, margin, squared) * 0.25
    plain.backward()
    assert float(loss) == pytest.approx(plain.item(), rel=1e-12)
    assert gradients.keys() == dict(model.named_parameters()).keys()
    for name, table in model.named_parameters():
        assert table.grad is not None
        dense = torch.zeros_like(table)
        rows = gradients[name].rows
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert set(rows.tolist()) <= set(model.touched(batch)[name].tolist())
        dense[rows] = gradients[name].values
        torch.testing.assert_close(dense, table.grad, rtol=1e-10, atol=1e-12)


def test_gradient_is_empty_without_a_violated_margin() -> None:
    model = randomised(TransR(7, 4, 5, 3), 11)
    batch = random_batch(3, 12, 7, 4, 2)
    never = MarginLoss(margin=-1e9)
    loss, gradients = model.gradients(batch, never, scale=1.0)
    assert loss == 0
    assert all(len(gradient.rows) == 0 for gradient in gradients.values())


@pytest.mark.parametrize("kind", ["TransR", "TransE"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_gradients_of_shares_add_up_to_the_whole(kind: str, size: int) -> None:
    empty = TransR(7, 4, 5, 3) if kind == "TransR" else TransE(7, 4, 5)
    model = randomised(empty, 4, length=0.5)
    batch = random_batch(8, 13, 7, 4, 2)
    loss = MarginLoss()
    whole_loss, whole = model.gradients(batch, loss, scale=1.0)
    shares = [model.gradients(batch.shard(rank, size), loss, scale=1.0) for rank in range(size)]
    assert float(sum(value for value, _ in shares)) == pytest.approx(float(whole_loss), rel=1e-12)
    for name, touched in model.touched(batch).items():
        rows = torch.from_numpy(touched)
        total = sum(add_over_workers(gradients[name], rows, Workers()).values for _, gradients in shares)
        torch.testing.assert_close(total, add_over_workers(whole[name], rows, Workers()).values)


@pytest.mark.parametrize("name", ["num_entities", "num_relations", "entity_dim", "relation_dim"])
def test_impossible_sizes_are_rejected(name: str) -> None:
    given_sizes = {"num_entities": 2, "num_relations": 2, "entity_dim": 2, "relation_dim": 2, name: 0}
    with pytest.raises(ValueError, match=f"{name} is 0"):
        TransR(**given_sizes)


@pytest.mark.parametrize("triple", [(3, 0, 0), (0, 2, 0), (0, 0, 3), (-1, 0, 0), (0, -1, 0)])
def test_unknown_numbers_are_rejected(triple: tuple[int, int, int]) -> None:
    with pytest.raises(IndexError):
        TransR(3, 2, 4, 4).score(*triple)
