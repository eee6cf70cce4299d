"""The CRF equals brute force over all tag sequences."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.networks.parts.crf import ConditionalRandomField

LENGTHS = [3, 1, 4, 2, 4]  # in no order


def make(tags: int = 3, seed: int = 0) -> tuple[ConditionalRandomField, Tensor, Layout]:
    torch.manual_seed(seed)
    crf = ConditionalRandomField(tags)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf, torch.randn(sum(LENGTHS), tags, requires_grad=True), Layout.from_lengths(LENGTHS)


def scores(crf: ConditionalRandomField, emissions: Tensor) -> dict[tuple[int, ...], Tensor]:
    """The score of every tag sequence of one sequence's emissions (L, C)."""
    length, tags = emissions.shape
    return {
        path: crf.start[path[0]]
        + sum(emissions[t, tag] for t, tag in enumerate(path))
        + sum((crf.transitions[a, b] for a, b in pairwise(path)), torch.zeros(()))
        + crf.end[path[-1]]
        for path in product(range(tags), repeat=length)
    }


@pytest.mark.parametrize("seed", range(3))
def test_log_partition_and_viterbi_equal_brute_force(seed: int) -> None:
    crf, emissions, layout = make(seed=seed)
    partition, best = crf.log_partition(emissions, layout), crf.viterbi(emissions, layout).split(LENGTHS)
    for place, part in enumerate(emissions.split(LENGTHS)):
        by_path = scores(crf, part)
        torch.testing.assert_close(partition[place], torch.logsumexp(torch.stack(list(by_path.values())), 0))
        assert tuple(best[place].tolist()) == max(by_path, key=lambda path: by_path[path].item())


def test_likelihood_of_partly_known_tags_and_its_gradient_equal_brute_force() -> None:
    crf, emissions, layout = make()
    tags = torch.tensor([0, 1, 2, 1, -100, 0, -100, 2, -100, -100, 2, 2, 1, 0])
    ours = crf.log_likelihood(emissions, tags, layout)
    plain = []
    for part, known in zip(emissions.split(LENGTHS), tags.split(LENGTHS), strict=True):
        by_path = scores(crf, part)
        agreeing = [
            score
            for path, score in by_path.items()
            if all(tag in (-100, at) for tag, at in zip(known.tolist(), path, strict=True))
        ]
        plain.append(
            torch.logsumexp(torch.stack(agreeing), 0) - torch.logsumexp(torch.stack(list(by_path.values())), 0)
        )
    torch.testing.assert_close(ours, torch.stack(plain))
    wanted = [emissions, *crf.parameters()]
    for a, b in zip(
        torch.autograd.grad(ours.sum(), wanted), torch.autograd.grad(sum(plain, torch.zeros(())), wanted), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_probabilities_of_all_paths_add_up_to_one() -> None:
    crf, emissions, _ = make()
    layout = Layout.from_lengths([3])
    total = sum(
        crf.log_likelihood(emissions[:3], torch.tensor(path), layout).exp() for path in product(range(3), repeat=3)
    )
    assert float(total) == pytest.approx(1.0, abs=1e-5)


def test_forbidden_transition_is_never_taken() -> None:
    crf, emissions, layout = make()
    with torch.no_grad():
        crf.transitions[0, 1] = -1e4
        emissions[:, 0] += 1.0
    for path in crf.viterbi(emissions, layout).split(LENGTHS):
        assert (0, 1) not in set(pairwise(path.tolist()))
