"""TransE: its formula, initial weights and limits."""

from __future__ import annotations

import pytest
import torch

from kg.embedding.start import ENTITY_LENGTH
from kg.transe import TransE
from tests.support.graphs.embedding_graphs import plain_distance, randomised


def test_score_equals_the_formula() -> None:
    model = randomised(TransE(6, 3, 5), 2)
    h, r, t = (torch.tensor(column) for column in ([0, 5, 2], [2, 0, 2], [4, 5, 1]))
    expected = [-plain_distance(model, *ends).item() for ends in zip(h, r, t, strict=True)]
    assert model.score(h, r, t).tolist() == pytest.approx(expected, abs=1e-12)
    by_points = (model.points(2)[0] + model.translation(2) - model.points(2)[4]).norm()
    assert by_points.item() == pytest.approx(-expected[0])


def test_initial_weights_have_their_lengths_and_depend_only_on_the_seed() -> None:
    one, same, other = TransE(6, 3, 5, seed=1), TransE(6, 3, 5, seed=1), TransE(6, 3, 5, seed=2)
    lengths = {"entities": ENTITY_LENGTH, "relations": 1.0}
    for name, table in one.named_parameters():
        assert table.norm(dim=1).tolist() == pytest.approx([lengths[name]] * len(table))
        assert torch.equal(table, same.get_parameter(name))
        assert not torch.equal(table, other.get_parameter(name))


@pytest.mark.parametrize("table", ["entities", "relations"])
def test_limits_shorten_rows_longer_than_one(table: str) -> None:
    limited = TransE.limits[table](torch.tensor([[3.0, 0, 4], [0, 0, 0.5], [0, 0, 0]]))
    assert limited.tolist() == [pytest.approx([0.6, 0, 0.8]), [0, 0, 0.5], [0, 0, 0]]
