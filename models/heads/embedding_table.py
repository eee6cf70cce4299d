"""Vectors of tokens as what a network reads: bare ones, which it trains, or those of a file, which stay as they are.

A folder has config.json, with the `model_type` of the kind, and model.safetensors, beside its tokeniser. Special tokens
have vectors of zeros in a table that is not trained.

Shape legend: V tokens of the vocabulary, T tokens laid end to end, D width.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TokenBatch
from models.heads.encoders import EncoderSizes, TaskEncoder
from models.weights.pretrained import CONFIG_FILE, SAFETENSORS_FILE

MODEL_TYPE = "embedding_table"
LONGEST = 1 << 20
"""Tokens of the longest sequence; a table has no positions, so this only bounds memory."""
DEVIATION = 0.1
"""Standard deviation of fresh vectors."""


class EmbeddingTable(nn.Module, TaskEncoder):
    """A vector for each token, whatever its context; made for the networks of models/networks/."""

    def __init__(self, table_VD: Tensor, *, trained: bool, by_word: bool = False) -> None:
        """Keep a float32 table.

        Args:
            trained: train the vectors with the network; otherwise they are no parameters.
            by_word: a tagged character has the vector of the word around it.
        """
        super().__init__()
        self.trained, self.by_word = trained, by_word
        self.table: Tensor
        if trained:
            self.table = nn.Parameter(table_VD)
        else:
            self.register_buffer("table", table_VD, persistent=False)  # no checkpoint copies what never changes

    @property
    def sizes(self) -> EncoderSizes:
        """See `TaskEncoder.sizes`."""
        rows, width = self.table.shape
        return EncoderSizes(
            vocab_size=rows, hidden_size=width, max_positions=LONGEST, type_vocab_size=1, by_word=self.by_word
        )

    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """See `TaskEncoder.states`; D is the table's width."""
        return nn.functional.embedding(batch.input_ids, self.table)

    def save(self, folder: Path) -> None:
        """See `TaskEncoder.save`."""
        folder.mkdir(parents=True, exist_ok=True)
        config = {"model_type": MODEL_TYPE, "trained": self.trained, "by_word": self.by_word}
        (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file({"table": self.table.detach().contiguous().cpu()}, folder / SAFETENSORS_FILE)

    def fresh(self, seed: int) -> EmbeddingTable:
        """See `TaskEncoder.fresh`; only a trained table has fresh weights."""
        if not self.trained:
            raise UserError("Word vectors cannot start from fresh weights. Leave random_weights out.")
        rows, width = self.table.shape
        return random_table(rows, width, seed)


def random_table(tokens: int, width: int, seed: int) -> EmbeddingTable:
    """Return a table of fresh vectors that are trained."""
    generator = torch.Generator().manual_seed(seed)
    return EmbeddingTable(torch.randn(tokens, width, generator=generator) * DEVIATION, trained=True)


def load_table(folder: Path, dropout: float | None = None) -> EmbeddingTable:
    """Load the table of a folder, on the CPU; it has no dropout of its own.

    Raises:
        UserError: a file is missing or damaged; the message names it.
    """
    try:
        config = json.loads(small_text(folder / CONFIG_FILE))
        table_VD = load_file(folder / SAFETENSORS_FILE)["table"]
        if table_VD.ndim != 2 or table_VD.dtype != torch.float32:
            raise ValueError(f"the table is {table_VD.dtype} {tuple(table_VD.shape)}, not float32 (V, D)")
        return EmbeddingTable(table_VD, trained=bool(config["trained"]), by_word=bool(config["by_word"]))
    except Exception as error:  # safetensors has exceptions of its own
        raise UserError(
            f"{folder}: {CONFIG_FILE} or {SAFETENSORS_FILE} is missing or damaged: {error}. Make the table again, or "
            "copy the whole folder."
        ) from error
