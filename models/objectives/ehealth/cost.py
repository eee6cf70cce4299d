"""Compute and memory of an eHealth training step, from sizes alone.

Width D, depth, feed-forward size and so on are those of models/encoder/network.py.
"""

import numpy as np

from models.batch import MaskedBatch
from models.objectives.ehealth.config import EHealthConfig
from models.training.memory import encoder_bytes, number_bytes

VIEWS = 2
"""Masked copies of each row; CSP compares them."""

FLOPS_FORMULA = (
    "6 x (weights of the dense layers of both networks) x tokens + 12 x layers x width x sum of length^2 for each "
    "network + 6 x (table + generator's dense layer) x selected tokens + 6 x (RTD's dense layer) x tokens; "
    "tokens of both views, work done twice not counted"
)
"""Sum that `flops` computes, in words for logs and pages."""


def flops(config: EHealthConfig, batch: MaskedBatch) -> float:
    """Return the floating-point operations of a training step on this batch, forward and backward.

    Work done twice to save memory is not counted. A product costs 6 per matrix weight and token, 2 forward and 4
    backward. Counted are

    - the dense layers of both networks at all tokens;
    - the tied table and the generator's dense layer at selected tokens;
    - the detector's dense layer at all tokens;
    - attention, 12 x layers x width x length^2 per sequence: 2 products of 2 length^2 width, times 3 for forward and
      backward.
    """
    tokens = batch.layout.total
    squares = float(np.square(np.asarray(batch.layout.lengths, dtype=np.float64)).sum())
    total = 0.0
    for encoder in (config.generator, config.discriminator):
        width, embedding = encoder.hidden_size, encoder.embedding_width
        # Query, key, value and output projections are 4 width^2; the feed-forward pair is the second summand.
        weights = encoder.num_layers * (4 * width * width + 2 * width * encoder.intermediate_size)
        weights += embedding * width if embedding != width else 0
        total += 6.0 * weights * tokens + 12.0 * encoder.num_layers * width * squares
    head = config.discriminator.embedding_width * (config.vocab_size + config.generator.hidden_size)
    detector = config.hidden_size**2 if config.rtd_weight else 0
    return total + 6.0 * (len(batch.original) * head + tokens * detector)


def row_bytes(config: EHealthConfig, precision: str) -> float:
    """Return the bytes of GPU memory that a row of the longest length takes in a training step, with both views.

    Counted are what the encoders keep (models/training/memory.py), RTD's dense layer, and for each selected token the
    generator's hidden states, MTS's candidates with their gradient, and three copies of its logits in float32: the
    weights they become, their rounded copy, and what the sampler reads.
    """
    disc, b = config.discriminator, number_bytes(precision)
    kept = encoder_bytes(config.generator, precision) + encoder_bytes(disc, precision)
    kept += (3 * b + 4) * disc.hidden_size if config.rtd_weight else 0
    candidates = (1 + config.mts_negatives) * 8 * disc.embedding_width if config.mts_weight else 0
    selected = 2 * b * config.generator.hidden_size + 20 * disc.embedding_width + 12 * disc.table_rows
    return VIEWS * config.max_positions * (kept + config.mask_probability * (selected + candidates))


def workspace_bytes(config: EHealthConfig) -> float:
    """Return the bytes needed beside weights and rows.

    That is the word table's gradient from the generator's head, three times: the running sum, the summand (4 bytes per
    number each) and its rounded copy (2 bytes).
    """
    disc = config.discriminator
    return 10.0 * disc.table_rows * disc.embedding_width
