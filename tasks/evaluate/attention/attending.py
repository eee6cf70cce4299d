"""Attention of an exported encoder, by transformers' eager implementation: BertModel, ElectraModel or RoFormerModel.

The weights are read as for fine-tuning (models/heads/encoders.py), which refuses folders that are no encoder. Those of
a model with knowledge are its encoder's: up to the layer of the infusion, knowledge changes no attention. They are then
given to transformers' own module, since fused kernels do not return the weights of attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.heads.encoders import open_plain_encoder
from models.weights.convert import to_transformers, transformers_config
from tasks.downstream.features.alignment import TextTokenizer

BATCH_TOKENS = 4_096

Ids = tuple[np.ndarray, np.ndarray]
"""Token ids of a sequence and their segment types, int64 (L,)."""


class Attending:
    """An encoder whose attention can be read, with its tokeniser.

    Attributes:
        layers: number of its layers.
        longest: most tokens of a sequence, [CLS] and [SEP] included.
    """

    def __init__(self, folder: Path) -> None:
        """Load the encoder of a folder, in float32 on the CPU.

        Raises:
            UserError: the folder is no encoder, or has no tokeniser.
        """
        from transformers import AutoModel  # takes half a second

        encoder = open_plain_encoder(folder, dropout=0.0)
        self.tokenizer = TextTokenizer.from_folder(folder)
        self.layers = encoder.config.num_layers
        self.longest = encoder.config.max_positions
        self._model: Any = AutoModel.from_config(transformers_config(encoder.config), attn_implementation="eager")
        self._model.load_state_dict(to_transformers(encoder))
        self._model.eval()

    @torch.no_grad()
    def maps(self, sequences: Sequence[Ids], layers: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of each sequence with its attention: float32 (layers, L, L), the mean over heads.

        Row i of a map is the attention that token i pays to every token, and sums to one. The paper's sum over heads is
        this mean times their number. Sequences of like length share a batch, so they come in the order of their
        lengths. Layers are counted from 1.
        """
        for numbers in _batches([len(ids) for ids, _ in sequences]):
            maps_SNLL = self._batch([sequences[number] for number in numbers], layers)
            for number, maps_NLL in zip(numbers, maps_SNLL, strict=True):
                length = len(sequences[number][0])
                yield number, maps_NLL[:, :length, :length].numpy()

    def _batch(self, sequences: Sequence[Ids], layers: Sequence[int]) -> torch.Tensor:
        """Return the mean over heads of some layers: float32 (sequences, layers, longest, longest)."""
        shape = len(sequences), max(len(ids) for ids, _ in sequences)
        ids_SL, types_SL, mask_SL = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
        for row, (ids, types) in enumerate(sequences):
            ids_SL[row, : len(ids)] = torch.from_numpy(ids)
            types_SL[row, : len(ids)] = torch.from_numpy(types)
            mask_SL[row, : len(ids)] = 1
        out = self._model(input_ids=ids_SL, token_type_ids=types_SL, attention_mask=mask_SL, output_attentions=True)
        return torch.stack([out.attentions[layer - 1].mean(1) for layer in layers], dim=1)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield numbers of sequences in the order of their lengths, at most `BATCH_TOKENS` padded tokens at once."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[number] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
