"""Tiny heads, and random examples for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.heads.examples import Pointers, TokenSequence

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_layers": 1,
    "num_heads": 2,
    "intermediate_size": 64,
    "max_positions": 40,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("single", {"num_labels": 3}),
    "pair": ("pair", {"num_labels": 3}),
    "multi_label": ("multi_label", {"num_labels": 4}),
    "ranking": ("ranking", {}),
    "choice": ("choice", {}),
    "tagging": ("tagging", {"num_labels": 5}),
    "tagging_crf": ("tagging", {"num_labels": 5, "crf": True}),
    "two_stream": ("two_stream", {}),
    "triples": ("triples", {"num_labels": 4}),
}


def make_sequence(rng: np.random.Generator, length: int) -> TokenSequence:
    """[CLS], random tokens, [SEP]; the second half is of type 1."""
    ids = np.concatenate([[2], rng.integers(5, 60, length - 2), [3]])
    return TokenSequence(ids, (np.arange(length) >= length // 2).astype(np.int64))


def make_target(kind: str, rng: np.random.Generator, length: int, options: int) -> Any:
    """A random target of a kind of head."""

    def tags(number: int) -> np.ndarray:
        return np.concatenate([[-100], rng.integers(0, number, length - 2), [-100]])

    if kind in ("single", "pair"):
        return int(rng.integers(3))
    if kind == "multi_label":
        return rng.integers(0, 2, 4).astype(np.float32)
    if kind == "ranking":
        return int(rng.integers(2))
    if kind == "choice":
        return int(rng.integers(options))
    if kind == "two_stream":
        return np.stack([tags(5), tags(33)])
    if kind == "triples":
        first, second = 1, int(rng.integers(2, length - 1))
        entities = np.array([[first, first], [second, length - 2]])
        return Pointers(entities, np.array([[first, rng.integers(4), second], [second, rng.integers(4), first]]))
    return tags(5)
