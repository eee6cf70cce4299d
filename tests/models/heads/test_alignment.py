"""Self-alignment of names (SapBERT): loss beside a plain implementation by triplets, pooling beside transformers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel

from models import heads
from models.finetuning import FinetuneConfig, finetune
from models.heads.alignment import Alignment
from models.heads.examples import HeadExample, TokenSequence
from models.heads.multi_similarity import MultiSimilarityConfig, hard_pairs, multi_similarity_loss
from tests.support.heads.tiny_heads import SIZES


def plain_loss(vectors: np.ndarray, concepts: list[int], config: MultiSimilarityConfig) -> float:
    """Equations 1 and 2, triplet by triplet and anchor by anchor."""
    numbers = range(len(concepts))
    positives: set[tuple[int, int]] = set()
    negatives: set[tuple[int, int]] = set()
    for a, p, n in itertools.product(numbers, numbers, numbers):
        if a != p and concepts[a] == concepts[p] != concepts[n]:
            near, far = (float(np.linalg.norm(vectors[a] - vectors[other])) for other in (p, n))
            if near + config.margin >= far:
                positives.add((a, p))
                negatives.add((a, n))
    total = 0.0
    for a in numbers:
        away = sum(
            math.exp(config.negative_scale * (float(vectors[a] @ vectors[n]) - config.offset))
            for n in numbers
            if (a, n) in negatives
        )
        together = sum(
            math.exp(-config.positive_scale * (float(vectors[a] @ vectors[p]) - config.offset))
            for p in numbers
            if (a, p) in positives
        )
        total += math.log1p(away) / config.negative_scale + math.log1p(together) / config.positive_scale
    return total / len(concepts)


def unit(seed: int, rows: int, width: int = 3) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(rows, width))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=9),
    st.integers(0, 10_000),
    st.floats(0.0, 1.0),
    st.sampled_from([1.0, 2.0, 20.0]),
)
def test_loss_is_that_of_equations_1_and_2(concepts: list[int], seed: int, margin: float, scale: float) -> None:
    vectors = unit(seed, len(concepts))
    config = MultiSimilarityConfig(margin=margin, negative_scale=scale, positive_scale=1.5, offset=0.4)
    found = multi_similarity_loss(torch.tensor(vectors), torch.tensor(concepts), config)
    assert float(found) == pytest.approx(plain_loss(vectors, concepts, config), abs=1e-9)


def test_separated_triplets_are_not_mined() -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    positives, negatives = hard_pairs(vectors, torch.tensor([0, 0, 1, 2]), margin=0.2)
    assert not positives.any()
    assert not negatives.any()
    # With a margin of 1.5 the name at a right angle (distance 1.41) is hard, the opposite one (distance 2) is not.
    positives, negatives = hard_pairs(vectors, torch.tensor([0, 0, 1, 2]), margin=1.5)
    assert positives.nonzero().tolist() == [[0, 1], [1, 0]]
    assert negatives.nonzero().tolist() == [[0, 3], [1, 3]]


def test_a_triplet_that_is_separated_by_no_more_than_the_margin_is_hard() -> None:
    # Both others are at the same distance from the first: |a - p| + 0 >= |a - n| just holds.
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    positives, negatives = hard_pairs(vectors, torch.tensor([0, 0, 1]), margin=0.0)
    assert positives.nonzero().tolist() == [[0, 1]]
    assert negatives.nonzero().tolist() == [[0, 2]]


def test_gradients_are_finite_where_nothing_is_hard_and_at_large_scales() -> None:
    for concepts in ([0, 0, 1], [0, 1, 2], [0, 0, 0]):
        vectors = torch.tensor(unit(3, 3), dtype=torch.float32, requires_grad=True)
        config = MultiSimilarityConfig(negative_scale=500.0, margin=2.0)
        multi_similarity_loss(vectors, torch.tensor(concepts), config).backward()
        assert torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize("name", ["negative_scale", "positive_scale", "margin", "offset"])
def test_impossible_settings_are_named(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        MultiSimilarityConfig(**{name: -3.0})


def name_of(*ids: int) -> TokenSequence:
    return TokenSequence(np.array([2, *ids, 3]), np.zeros(len(ids) + 2, dtype=np.int64))


def model_of(pooling: str = "mean") -> Alignment:
    found = heads.build("alignment", SIZES, seed=1, pooling=pooling)
    assert isinstance(found, Alignment)
    return found


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_pooled_states_of_the_exported_model(pooling: str, tmp_path) -> None:
    model = model_of(pooling)
    names = [name_of(7, 8, 9), name_of(10), name_of(11, 12, 13, 14)]
    # Two examples, of one name and of two, the longest first in none of them.
    found = model.predict(model.collate([HeadExample((names[0],)), HeadExample((names[2], names[1]))]))
    assert [part.shape for part in found] == [(1, 32), (2, 32)]
    model.reader.save(tmp_path)
    theirs = AutoModel.from_pretrained(tmp_path).eval()
    for one, vector in zip((names[0], names[2], names[1]), np.concatenate(found), strict=True):
        with torch.no_grad():
            states = theirs(input_ids=torch.tensor(one.input_ids)[None])[0][0]
        pooled = states[0] if pooling == "cls" else states[1:-1].mean(0)
        np.testing.assert_allclose(vector, (pooled / pooled.norm()).numpy(), atol=1e-5)


def test_a_name_without_tokens_is_zero() -> None:
    model = model_of()
    (vector,) = model.predict(model.collate([HeadExample((name_of(),))]))
    assert not vector.any()


def test_training_brings_names_of_a_concept_together_and_repeats_exactly() -> None:
    rng = np.random.default_rng(0)
    words = [rng.integers(5, 60, (2, 4)) for _ in range(16)]
    examples = [
        HeadExample(
            (name_of(*first), name_of(*second), name_of(*words[(at + 1) % 16][0])),
            np.array([at, at, (at + 1) % 16]),
        )
        for at, (first, second) in enumerate(words)
    ]

    def nearest(model: Alignment) -> float:
        vectors = np.stack([np.concatenate(model.predict(model.collate([one])))[:2] for one in examples])
        return float((np.argmax(vectors[:, 0] @ vectors[:, 1].T, 1) == np.arange(16)).mean())

    config = FinetuneConfig(epochs=12, batch_size=8, learning_rate=3e-3, ema_decay=None)
    trained = []
    for _ in range(2):
        model = model_of()
        before = nearest(model)
        finetune(model, examples, config)
        trained.append((before, nearest(model), model.state_dict()))
    assert trained[0][0] < 0.6 < 0.95 < trained[0][1]
    for name, value in trained[0][2].items():
        assert torch.equal(value, trained[1][2][name])


def test_targets_must_be_concepts() -> None:
    model = model_of()
    with pytest.raises(ValueError, match="2 names need as many concepts"):
        model.collate([HeadExample((name_of(7), name_of(8)), np.array([1]))])
    with pytest.raises(ValueError, match="pooling must be one of cls, mean"):
        heads.build("alignment", SIZES, pooling="max")
