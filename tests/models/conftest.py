"""Fixtures that the tests of models/ share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from models import heads
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from tests.support.heads.tiny_heads import OPTIONS, SIZES, make_sequence, make_target
from tests.support.training.token_rows import TINY, Rows, random_rows

# Tensors here are tiny: a second thread only adds waiting, and a lot of it on a busy machine.
torch.set_num_threads(1)


@pytest.fixture
def tiny() -> dict[str, Any]:
    """An eHealth config that runs in milliseconds; divisible by three throughout."""
    return dict(TINY)


@pytest.fixture
def make_rows() -> Callable[..., Rows]:
    """`random_rows`."""
    return random_rows


@pytest.fixture
def make_examples() -> Callable[..., list[HeadExample]]:
    """Random examples of a key of OPTIONS, of unequal lengths."""

    def build(kind: str, count: int = 6, seed: int = 0) -> list[HeadExample]:
        rng = np.random.default_rng(seed)
        examples = []
        for _ in range(count):
            length, options = int(rng.integers(5, 12)), int(rng.integers(2, 5))
            sequences = tuple(make_sequence(rng, length) for _ in range(options if kind == "choice" else 1))
            examples.append(HeadExample(sequences, make_target(kind, rng, length, options)))
        return examples

    return build


@pytest.fixture
def make_model() -> Callable[..., TaskModel]:
    """A tiny model of a key of OPTIONS."""

    def build(kind: str, seed: int = 1, **more: Any) -> TaskModel:
        name, options = OPTIONS[kind]
        return heads.build(name, SIZES, seed=seed, **options | more)

    return build
