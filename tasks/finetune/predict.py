"""Prediction with a fine-tuned model:

    predictor = Predictor("path/to/model")
    predictor.predict(["患者头痛三天。", "高血压病史十年。"])

Inputs are sorted by length and run unpadded in batches of like length (models/inference.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infra.counted import counted
from infra.errors import UserError
from infra.keywords import explained_keywords
from infra.uses import use
from models.inference import device_of, predict
from models.knowledge_model.source import GivenKnowledge
from tasks.downstream.features.base import RIGHT, WRONG, Prediction
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

    @explained_keywords
    def __init__(
        self,
        folder: str | Path,
        device: str | None = None,
        batch_tokens: int | None = None,
        knowledge: GivenKnowledge = None,
    ) -> None:
        place = device_of(device)
        use(folder)
        self._model, self.shape, tokenizer = load_task_model(folder, knowledge)
        self._model.to(place)
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

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the labels that `probabilities` has, or None."""
        if self.shape.kind is Kind.RANKING:
            return WRONG, RIGHT
        return self.shape.labels if self.shape.kind in (Kind.SINGLE, Kind.PAIR, Kind.MULTI_LABEL) else None

    def probabilities(self, prediction: Prediction) -> dict[str, float] | None:
        """Return the probability of each label by its name; None for entities, triples and options.

        Those of several labels are independent. A ranking has the labels 0 and 1, wrong and right.
        """
        scores = prediction.scores
        if scores is None or self.labels is None:
            return None
        if self.shape.kind is Kind.RANKING:  # its score is the log-odds of being right
            right = 0.5 * (1.0 + math.tanh(0.5 * scores[0]))
            scores = (1.0 - right, right)
        return dict(zip(self.labels, scores, strict=True))

    @property
    def truncated(self) -> int:
        """Number of texts so far whose ends were not read, because they are longer than a sequence."""
        return self._features.counters["truncated"]

    def refusal(self, given: Any) -> str:
        """Return why texts get no answer: they are no record of the task, or a text is empty; "" if they get one."""
        if fault := self.fault(given):
            return fault
        texts = (given,) if isinstance(given, str) else given
        empty = [number for number, text in enumerate(texts, 1) if not text.strip()]
        if not empty or self.shape.kind is Kind.CHOICE:  # options are judged without evidence as well
            return ""
        return "the text is empty" if len(texts) == 1 else f"text {empty[0]} is empty"

    def fault(self, given: Any) -> str:
        """Return why texts are not a record of the task; empty if they are."""
        texts = (given,) if isinstance(given, str) else given
        if not isinstance(texts, list | tuple):
            return f"every text must be a string, not {str(given)[:60]}"
        if others := [text for text in texts if not isinstance(text, str)]:
            return f"every text must be a string, not {str(others[0])[:60]}"
        wanted = self.texts_of_a_record
        if len(texts) != wanted if wanted is not None else len(texts) < 3:
            takes = "evidence, question and options" if wanted is None else counted(wanted, "texts")
            return f"{self.shape.task} takes {takes}, not {counted(len(texts), 'texts')}"
        return ""
