"""An encoder with the head of one task: what all heads share.

A head defines its targets, its losses and how its predictions are read; packing, dropout, checking and saving are here.
What it asks of an encoder is in models/heads/task_encoder.py.

On disk a task model has `head.json` and `head.safetensors`, and beside them one of two forms. If transformers has a
class for the encoder with this head, config.json and model.safetensors are that class's. Otherwise the encoder is in
the folder `encoder/`, and config.json names a type that transformers does not know: its classes refuse the folder by
that name, instead of answering at random from a head with fresh weights.

Shape legend: E examples, S sequences, T tokens laid end to end, D hidden size, N = S or T.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from models.encoder.dropout import draw_mask, dropout
from models.encoder.layout import Layout
from models.encoder.network import Encoder, initialise
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TaskBatch, check_sequence, pack
from models.heads.encoders import ENCODER_FOLDER, OWN_TYPE, AnyEncoder, EncoderSizes, TaskEncoder, as_task_encoder
from models.heads.examples import HeadExample
from models.heads.pooling import mean_states
from models.weights.pretrained import CONFIG_FILE
from models.weights.task_heads import TransformersHead, class_name, save_with_head

HEAD_CONFIG = "head.json"
HEAD_WEIGHTS = "head.safetensors"


class TaskModel(nn.Module, ABC):
    """Base class of the heads. Subclasses build their layers after `super().__init__`, then call `initialise_head`."""

    name: ClassVar[str]
    """Name of the head for `models.heads.build`."""
    sequences_per_example: ClassVar[int | None] = 1
    """Number of sequences of an example; None: one or more."""

    def __init__(self, encoder: AnyEncoder, *, dropout: float = 0.1) -> None:
        """`dropout`: rate between encoder and head (eHealth, Table 8).

        Raises ValueError outside [0, 1), or if `encoder` is not an encoder.
        """
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout!r}")
        as_task_encoder(encoder)
        self.encoder = encoder
        self.dropout = dropout

    @property
    def reader(self) -> TaskEncoder:
        """The encoder as heads use it."""
        return as_task_encoder(self.encoder)

    @property
    def sizes(self) -> EncoderSizes:
        """The encoder's sizes."""
        return self.reader.sizes

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the arguments of `models.heads.build` besides the encoder, for JSON."""

    @abstractmethod
    def check_target(self, example: HeadExample) -> None:
        """Raise ValueError if this head cannot learn the example's target."""

    @abstractmethod
    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """Return the targets of examples that all have one, for the `batch` that they are packed into."""

    @abstractmethod
    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return `{"loss": …}` and, if a loss has several terms, each before its weight: means, float32 ().

        Raises ValueError if the batch has no targets.
        """

    @abstractmethod
    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return the result of `predict`; called without gradients, in eval mode."""

    def weigh_labels(self, weights: Sequence[float]) -> None:
        """Let labels count by these weights in the loss, one per output; they are not saved with the model.

        Raises ValueError if the head has no labels to weigh, or another number of them.
        """
        raise ValueError(f"head {self.name!r} has no weights of labels; {len(weights)} were given")

    def transformers_head(self) -> TransformersHead | None:
        """Return this head in transformers' form; None if it has no such class."""
        return None

    @property
    def transformers_class(self) -> str | None:
        """Name of the transformers class that loads what `save` writes; None for a head that transformers lacks."""
        head = self.transformers_head()
        return class_name(self.encoder, head) if isinstance(self.encoder, Encoder) and head is not None else None

    @property
    def form(self) -> str:
        """Name of the head in the `model_type` of a folder that transformers has no class for."""
        return self.name

    @torch.no_grad()
    def predict(self, batch: TaskBatch) -> list[Any]:
        """Return one prediction per example, in their order and in the form of models/heads/examples.py.

        Dropout is off whatever mode the model is in. For many examples, `models.inference.predict` makes the batches.
        """
        training = self.training
        self.eval()
        try:
            return self.decode(batch)
        finally:
            self.train(training)

    def collate(self, examples: Sequence[HeadExample], *, seed: int = 0, step: int = 0) -> TaskBatch:
        """Return a packed batch on the CPU. Its dropout on the CPU is a function of (seed, step, place in the batch).

        Raises ValueError as `check` does, and if only some of the examples have a target.
        """
        self.check(examples)
        batch = pack(examples, seed=seed, step=step, look_up=self.reader.look_up)
        labelled = sum(example.target is not None for example in examples)
        if labelled not in (0, len(examples)):
            raise ValueError(f"{labelled} of {len(examples)} examples have a target; a batch needs all or none")
        return replace(batch, targets=self.pack_targets(examples, batch)) if labelled else batch

    def check(self, examples: Sequence[HeadExample], first: int = 0) -> None:
        """Raise ValueError for an example that does not fit, named by its number counted from `first`.

        It is raised for an empty sequence of examples as well.
        """
        if not examples:
            raise ValueError("no examples given; at least one is needed")
        sizes = self.sizes
        for number, example in enumerate(examples, start=first):
            try:
                if not example.sequences or self.sequences_per_example not in (None, len(example.sequences)):
                    wanted = self.sequences_per_example or "one or more"
                    raise ValueError(f"head {self.name!r} takes {wanted} sequence(s), got {len(example.sequences)}")
                for sequence in example.sequences:
                    check_sequence(sequence, sizes.vocab_size, sizes.type_vocab_size, sizes.max_positions)
                if example.target is not None:
                    self.check_target(example)
            except ValueError as error:
                raise ValueError(f"example {number}: {error}") from error

    def initialise_head(self) -> None:
        """Initialise everything but the encoder like BERT, with the encoder's standard deviation."""
        deviation = self.sizes.initializer_range
        for name, child in self.named_children():
            if name != "encoder":
                child.apply(lambda module: initialise(module, deviation))

    def encode(self, batch: TaskBatch) -> Tensor:
        """Return hidden states (T, D) after dropout, in the layout's order."""
        noise = self._noise(batch)
        return self._drop(self.reader.states(batch, noise), batch.layout, noise)

    def encode_first(self, batch: TaskBatch) -> Tensor:
        """Return hidden states (S, D) of [CLS] after dropout, in the examples' order."""
        noise = self._noise(batch)
        first_SD = self.reader.first_states(batch, noise)
        if self.training:
            first_SD = self._drop(first_SD, Layout.from_lengths([1] * len(first_SD)), noise)
        return first_SD[batch.places]

    def pooled_states(self, batch: TaskBatch, pooling: str) -> Tensor:
        """Return one state (S, D) of each sequence after dropout, in the examples' order.

        `pooling`: one of models/heads/pooling.py. The mean of a sequence without tokens is zeros.
        """
        if pooling == "cls":
            return self.encode_first(batch)
        return mean_states(self.encode(batch), batch.layout)[batch.places]

    def targets(self, batch: TaskBatch, name: str) -> Tensor:
        """Return the batch's targets of this name. Raises ValueError if it has none."""
        if name not in batch.targets:
            raise ValueError("these examples have no targets, so there is no loss; use predict")
        return batch.targets[name]

    def save(self, folder: str | Path, labels: Sequence[str] | None = None) -> None:
        """Write the model for `models.heads.load` and, where transformers has its class, for that too.

        `labels`: names of the outputs in transformers' `id2label`; several may share one.

        Raises ValueError if the number of labels is not that of the outputs.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        head = self.transformers_head()
        if isinstance(self.encoder, Encoder) and head is not None:
            save_with_head(self.encoder, head, target, labels)
        else:
            self.reader.save(target / ENCODER_FOLDER)
            own = {"model_type": f"{OWN_TYPE}{self.form}", "architectures": [type(self).__name__]}
            (target / CONFIG_FILE).write_text(json.dumps(own, indent=2) + "\n", encoding="utf-8")
        weights = {
            name: tensor.detach().contiguous().cpu()
            for name, tensor in self.state_dict().items()
            if not name.startswith("encoder.")
        }
        save_file(weights, target / HEAD_WEIGHTS, metadata={"format": "pt"})
        config = {"head": self.name, **self.config()}
        (target / HEAD_CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _noise(self, batch: TaskBatch) -> SequenceNoise | None:
        """Dropout streams of the batch on the CPU; None elsewhere, where the device's generator draws."""
        return batch.noise() if self.training and batch.input_ids.device.type == "cpu" else None

    def _drop(self, x_ND: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        if not self.training:
            return x_ND
        site = self.sizes.dropout_sites  # the encoder's own are those before
        mask_ND = draw_mask(x_ND, self.dropout, layout, noise.fork(site) if noise else None)
        return dropout(x_ND, self.dropout, mask_ND)


def check_num_labels(num_labels: Any, name: str, least: int = 2) -> int:
    """Return `num_labels` as an int. Raises ValueError unless it is a whole number of at least `least`."""
    if isinstance(num_labels, bool) or not isinstance(num_labels, int) or num_labels < least:
        raise ValueError(
            f"head {name!r} needs num_labels, a whole number of at least {least}, got {num_labels!r}; "
            "a task with one label has nothing to learn"
        )
    return num_labels


def softmax_numpy(logits: Tensor) -> Any:
    """Return probabilities float32 on the CPU."""
    return torch.softmax(logits.float(), -1).cpu().numpy()
