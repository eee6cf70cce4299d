"""A fine-tuned model on disk: encoder and head, tokeniser, and `task.json`, so that it predicts with nothing else.

The encoder lies in Hugging Face's layout: `AutoModel.from_pretrained` loads it without the head.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from infra.errors import UserError
from models import heads
from models.heads.task_model import TaskModel
from tasks.downstream.alignment import TOKENIZER_FILES, TextTokenizer
from tasks.downstream.shapes import TaskShape

TASK_FILE = "task.json"


class SavedModel(NamedTuple):
    """What a folder holds."""

    model: TaskModel
    shape: TaskShape
    tokenizer: TextTokenizer


def save_task_model(folder: Path, model: TaskModel, shape: TaskShape, tokenizer_folder: str | Path) -> None:
    """Write the model with its tokeniser's files."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder)
    for name in TOKENIZER_FILES:
        if (Path(tokenizer_folder) / name).is_file():
            shutil.copyfile(Path(tokenizer_folder) / name, folder / name)
    (folder / TASK_FILE).write_text(shape.model_dump_json(indent=1) + "\n", encoding="utf-8")


def load_task_model(folder: str | Path) -> SavedModel:
    """The model of a folder, on the CPU in eval mode.

    Raises:
        UserError: the folder is no fine-tuned model, or a file of it cannot be read.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UserError(f"There is no folder {path}. Give the one that a finetune flow printed as its model.")
    try:
        shape = TaskShape.model_validate_json((path / TASK_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        inner = path / "model"
        hint = f"Did you mean {inner}?" if (inner / TASK_FILE).is_file() else "Run a finetune flow to make one."
        raise UserError(f"{path} is no fine-tuned model: it has no {TASK_FILE}. {hint}") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{path / TASK_FILE} cannot be read: {error}. Fine-tune again.") from error
    return SavedModel(heads.load(path), shape, TextTokenizer.from_folder(path))
