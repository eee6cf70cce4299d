"""The margin loss and its written-out gradient, where the tests of training do not look."""

from __future__ import annotations

import pytest
import torch

from kg.embedding.loss import MarginLoss


@pytest.mark.parametrize("squared", [True, False])
def test_gradient_equals_autograd_and_is_zero_where_a_triple_fits_exactly(squared: bool) -> None:
    """h + r − t is 0 for the first positive, where the plain norm has no slope and its subgradient is 0."""
    table = torch.tensor([[1.0, 2], [1, 2], [0, 0], [3, -1], [0.5, 0.25]], dtype=torch.float64, requires_grad=True)
    triples = torch.tensor([[0, 2, 1], [3, 2, 4], [0, 2, 4], [3, 2, 0]])  # two positives, a negative of each
    loss = MarginLoss(margin=5.0, squared=squared)
    value, gradient = loss.gradient(table.detach(), triples, 2, scale=0.5)

    difference = table[triples[:, 0]] + table[triples[:, 1]] - table[triples[:, 2]]
    distance = difference.square().sum(1) if squared else difference.norm(dim=1)
    expected = 0.5 * (5.0 + distance[:2] - distance[2:]).clamp(min=0).sum()
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    dense = torch.zeros_like(table).index_add(0, gradient.rows, gradient.values)
    torch.testing.assert_close(dense, table.grad)
