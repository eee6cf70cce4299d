"""Prediction with a fine-tuned model:

    predictor = Predictor("path/to/model")
    predictor.predict(["患者头痛三天。", "高血压病史十年。"])

Inputs are sorted by length and run unpadded in batches of like length (models/inference.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from infra.errors import UserError
from models.inference import predict
from models.knowledge_model.source import GivenKnowledge
from tasks.downstream.features.base import Prediction
from tasks.downstream.records import Kind, Record
from tasks.finetune.saved_model import load_task_model

Given = str | Sequence[str]
"""One text; or the texts of a record, in the order of tasks/downstream/records.py."""


class Predictor:
    """A fine-tuned model, ready to answer.

    Args:
        folder: `model/` of a finetune artifact, or a copy of it.
        device: `cuda` or `cpu`; by default `cuda` if there is a GPU.
        batch_tokens: tokens per batch; by default those that models/inference.py chooses for the device.
        knowledge: folder of the knowledge of a model that reads some; by default it is looked for.

    Raises:
        UserError: the folder is not a fine-tuned model.
    """

    def __init__(
        self,
        folder: str | Path,
        device: str | None = None,
        batch_tokens: int | None = None,
        knowledge: GivenKnowledge = None,
    ) -> None:
        self._model, self.shape, tokenizer = load_task_model(folder, knowledge)
        self._model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._features = self.shape.features(tokenizer)
        self._batch_tokens = batch_tokens

    @property
    def texts_of_a_record(self) -> int | None:
        """Number of texts of a record; None for three or more (evidence, question, options)."""
        return {Kind.PAIR: 2, Kind.RANKING: 2, Kind.CHOICE: None}.get(self.shape.kind, 1)

    def predict(self, texts: Sequence[Given], progress: Callable[[int], None] | None = None) -> list[Prediction]:
        """Return an answer to each record, in order.

        Args:
            progress: receives the inputs of the model done so far; a long text is several inputs.

        Raises:
            UserError: a record does not have the task's number of texts; the message has its number.
        """
        for number, given in enumerate(texts):
            if fault := self.fault(given):
                raise UserError(f"Record {number}: {fault}.")
        records = [
            Record(str(number), (given,) if isinstance(given, str) else tuple(given))
            for number, given in enumerate(texts)
        ]
        return self._features.predict(
            records,
            lambda examples: predict(self._model, examples, batch_tokens=self._batch_tokens, progress=progress),
        )

    def fault(self, given: Any) -> str:
        """Return why texts are not a record of the task; empty if they are."""
        texts = (given,) if isinstance(given, str) else given
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            return f"every text must be a string, not {str(given)[:60]!r}"
        wanted = self.texts_of_a_record
        if len(texts) != wanted if wanted is not None else len(texts) < 3:
            takes = "evidence, question and options" if wanted is None else f"{wanted} text{'s' * (wanted > 1)}"
            return f"{self.shape.task} takes {takes}, not {len(texts)} texts"
        return ""
