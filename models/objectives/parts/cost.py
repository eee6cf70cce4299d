"""Compute of parts that several objectives share, from sizes alone.

A product costs 6 operations per matrix weight and token, 2 forward and 4 backward. Work done twice to save memory is
not counted.
"""

from collections.abc import Sequence

import numpy as np

from models.encoder.config import EncoderConfig


def encoder_flops(config: EncoderConfig, lengths: Sequence[int]) -> float:
    """Return the operations of an encoder on sequences of these lengths, forward and backward.

    Its dense layers at all tokens, and attention: 12 x layers x width x length^2 per sequence (2 products of
    2 length^2 width, times 3 for forward and backward).
    """
    width, embedding = config.hidden_size, config.embedding_width
    # Query, key, value and output projections are 4 width^2; the feed-forward pair is the second summand.
    weights = config.num_layers * (4 * width * width + 2 * width * config.intermediate_size)
    weights += embedding * width if embedding != width else 0
    squares = float(np.square(np.asarray(lengths, dtype=np.float64)).sum())
    return 6.0 * weights * sum(lengths) + 12.0 * config.num_layers * width * squares


def head_flops(config: EncoderConfig, selected: int) -> float:
    """Return the operations of the vocabulary head at `selected` tokens: its dense layer and the tied table."""
    return 6.0 * selected * config.embedding_width * (config.vocab_size + config.hidden_size)


def head_bytes(config: EncoderConfig, number: int) -> float:
    """Return the bytes that the vocabulary head takes for each selected token, with `number` bytes per factor.

    Its hidden states and three copies of its logits in float32: the weights they become, their rounded copy, and what a
    sampler reads.
    """
    return 2 * number * config.hidden_size + 20 * config.embedding_width + 12 * config.table_rows


def table_bytes(config: EncoderConfig) -> float:
    """Return the bytes of the word table's gradient three times: the running sum and the summand (4 bytes per number
    each) and its rounded copy (2 bytes).
    """
    return 10.0 * config.table_rows * config.embedding_width
