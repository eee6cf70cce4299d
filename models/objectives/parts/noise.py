"""Random numbers of one pass through the networks of an objective.

Shape legend: M selected tokens.
"""

import torch
from torch import Tensor

from models.batch import MaskedBatch, PackedBatch
from models.encoder.randomness import SequenceNoise, Stream, seed_device


class StepNoise:
    """Randomness of one pass: one stream per sequence on the CPU, one generator per batch on an accelerator.

    A second pass over the same batch draws the same numbers, which is what a survey before the pass relies on.
    """

    def __init__(self, batch: PackedBatch, training: bool) -> None:
        self.batch, self.training = batch, training
        device = batch.input_ids.device
        # Streams per sequence would have to be copied from the CPU at every layer; a GPU draws its own numbers.
        self.device_generator = (
            seed_device(device, batch.seed, batch.step, int(batch.rows[0])) if device.type == "cuda" else None
        )

    def dropout(self, stream: Stream) -> SequenceNoise | None:
        """Return the streams for one network's dropout; None where none are needed."""
        if self.device_generator is not None or not self.training:
            return None
        return self._streams(stream)

    def uniforms(self, draws: int) -> Tensor:
        """Return float64 (M, draws, 2) in [0, 1), for the selected tokens of a masked batch."""
        assert isinstance(self.batch, MaskedBatch), "nothing else is sampled for"
        shape = (len(self.batch.original), draws, 2)
        if self.device_generator is not None:
            return torch.rand(
                shape,
                dtype=torch.float64,
                generator=self.device_generator,
                device=self.device_generator.device,
            )
        counts = [count * draws * 2 for count in self.batch.selected_counts]
        return self._streams(Stream.SAMPLING).uniforms(counts).view(shape)

    def _streams(self, stream: Stream) -> SequenceNoise:
        return SequenceNoise.for_step(self.batch.seed, self.batch.step, stream, self.batch.rows, self.batch.views)
