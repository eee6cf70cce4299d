"""A fine-tuned model on disk: encoder and head, tokeniser, and `task.json`; it predicts without other files.

One that reads knowledge has the names of its graph's entities too, and finds the knowledge itself where its encoder's
config.json says, or in the artifact store that it is in.

Where transformers has a class for the head, that class and its pipelines load the folder too; it refuses the others
(models/heads/task_model.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from infra.errors import UserError
from models import heads
from models.heads.task_model import HEAD_CONFIG, TaskModel
from models.knowledge_model.source import GivenKnowledge
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.shapes import TaskShape
from tasks.finetune.text import copy_text_files, open_tokenizer

TASK_FILE = "task.json"
LEAST_LENGTH = 8
"""Least tokens per sequence. With fewer, the special ones leave no room for text."""


class SavedModel(NamedTuple):
    """Content of a model's folder."""

    model: TaskModel
    shape: TaskShape
    tokenizer: TextTokenizer


def save_task_model(folder: Path, model: TaskModel, shape: TaskShape, text_folder: str | Path) -> None:
    """Write the model, its `task.json`, and the files of `text_folder` that turn texts into its inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder, shape.output_labels)
    copy_text_files(text_folder, folder)
    (folder / TASK_FILE).write_text(shape.model_dump_json(indent=1) + "\n", encoding="utf-8")


def load_task_model(folder: str | Path, knowledge: GivenKnowledge = None) -> SavedModel:
    """Return the model of a folder, on the CPU in eval mode.

    Args:
        knowledge: the knowledge of a model that reads some; None: look for it (models/knowledge_model/source.py).

    Raises:
        UserError: the folder is not a fine-tuned model, one of its files is damaged or belongs to another model, or its
            knowledge is missing.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UserError(f"There is no folder {path}. Give the folder that a finetune flow printed as its model.")
    try:
        shape = TaskShape.model_validate_json((path / TASK_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        # A run of finetune has model/, one of finetune/cmedlms has models/cnn/, models/bilstm/ and so on.
        inner = next((one.parent for one in sorted(path.glob(f"model*/**/{TASK_FILE}"))), None)
        hint = "Train one with a finetune flow." if inner is None else f"Did you mean {inner}?"
        raise UserError(f"{path} is not a fine-tuned model: it has no {TASK_FILE}. {hint}") from error
    except (ValidationError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path / TASK_FILE} cannot be read: {_in_a_line(error)}. Fine-tune again.") from error
    model = heads.load(path, knowledge)
    saved = SavedModel(model, shape, open_tokenizer(path, model.encoder))
    if fault := _fault(saved):
        raise UserError(f"{path}: {fault}. Copy the whole folder again from the run that made it.")
    return saved


def _fault(saved: SavedModel) -> str:
    """Return why the files of a folder cannot belong to one model; empty if they can."""
    sizes, shape, head = saved.model.sizes, saved.shape, saved.model.config()
    if shape.head != saved.model.name or any(head.get(name) != value for name, value in shape.head_options.items()):
        return f"{TASK_FILE} and {HEAD_CONFIG} belong to different models"
    if not LEAST_LENGTH <= shape.max_length <= sizes.max_positions:
        return f"{TASK_FILE} has max_length {shape.max_length}, the encoder {sizes.max_positions} positions"
    if saved.tokenizer.size > sizes.vocab_size:
        return f"the tokeniser has {saved.tokenizer.size:,} tokens, the encoder embeddings for {sizes.vocab_size:,}"
    return ""


def _in_a_line(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return ": ".join((*map(str, first["loc"]), first["msg"]))
