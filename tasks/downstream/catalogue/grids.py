"""Fine-tuning grids that several tasks share, each with the paper that it is taken from."""

from __future__ import annotations

from tasks.downstream.spec import Grid


def ehealth_grid(batch_sizes: tuple[int, ...], learning_rates: tuple[float, ...], epochs: tuple[int, ...]) -> Grid:
    """Return a grid of eHealth's Table 9, which lists one per task."""
    return Grid(batch_sizes, learning_rates, epochs, "eHealth, Table 9")


CBLUE_GRID = ehealth_grid((8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16))
"""Grid of CTC, STS, QIC, QTR and QQR."""

SMEDBERT_GRID = Grid((8, 16), (2e-5, 4e-5, 6e-5), (2, 3, 4), "SMedBERT, appendix B")
"""Grid of SMedBERT's tasks, and of the ChineseBLUE tasks that EMBERT and ELECTRA+EM+PAP use: they give no ranges."""

PAP_GRID = Grid((32,), (1e-4,), (3,), "ELECTRA's fine-tuning defaults, which ELECTRA+EM+PAP, 4.2.1, keeps")

OWN_GRID = Grid((16,), (3e-5, 6e-5, 1e-4), (10,), "this project's choice for own tasks")
"""Grid of tasks on users' own files, for encoders of base size: eHealth's rates; smaller encoders have `own_rates`."""

_OWN_RATES = {192: (3e-4, 1e-3, 2e-3), 384: (1e-4, 3e-4, 1e-3)}
"""Rates by the largest hidden size that they are for. A tiny encoder learns nothing in 10 epochs at 3e-5."""


def own_rates(hidden_size: int | None) -> tuple[float, ...]:
    """Return the learning rates of an own task for an encoder of a hidden size; None: it is not known."""
    fitting = [rates for most, rates in _OWN_RATES.items() if hidden_size is not None and hidden_size <= most]
    return fitting[0] if fitting else OWN_GRID.learning_rates


CMEDLMS_GRID = Grid((64,), (5e-5,), (3,), "CMedLMs, Table 5 (batch); BERT's middle rate and epochs, as it gives none")

NETWORK_GRID = Grid((64,), (1e-3,), (100,), "CMedLMs, Table 5 (batch, epochs); Adam's usual rate, as it gives none")
"""Grid of the networks of models/networks/."""
NETWORK_PATIENCE = 10
"""Epochs without a better dev score before a network's training stops (CMedLMs, section 6.3)."""
