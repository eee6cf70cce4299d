"""A fine-tuned model on disk: encoder and head, tokeniser, and `task.json`; it predicts without other files.

Where transformers has a class for the head, that class and its pipelines load the folder too; it refuses the others
(models/heads/task_model.py).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from infra.errors import UserError
from models import heads
from models.heads.task_model import HEAD_CONFIG, TaskModel
from tasks.downstream.features.alignment import TOKENIZER_FILES, TextTokenizer
from tasks.downstream.features.shapes import TaskShape

TASK_FILE = "task.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
LEAST_LENGTH = 8
"""Least tokens per sequence. With fewer, the special ones leave no room for text."""


class SavedModel(NamedTuple):
    """Content of a model's folder."""

    model: TaskModel
    shape: TaskShape
    tokenizer: TextTokenizer


def save_task_model(folder: Path, model: TaskModel, shape: TaskShape, tokenizer_folder: str | Path) -> None:
    """Write the model, its `task.json` and its tokeniser's files."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder, shape.output_labels)
    copy_tokenizer(tokenizer_folder, folder)
    (folder / TASK_FILE).write_text(shape.model_dump_json(indent=1) + "\n", encoding="utf-8")


def copy_tokenizer(source: str | Path, folder: Path) -> None:
    """Copy a tokeniser's files such that transformers' `AutoTokenizer` gives the ids and types of `TextTokenizer`.

    RoFormer's own class, which would also be the default for rotary encoders, needs jieba and gives no types.
    """
    for name in TOKENIZER_FILES:
        if (Path(source) / name).is_file():
            shutil.copyfile(Path(source) / name, folder / name)
    path = folder / TOKENIZER_CONFIG
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if config.get("tokenizer_class", "RoFormerTokenizer").startswith("RoFormerTokenizer"):
        # Only this class uses tokenizer.json unchanged; it has no special tokens of its own.
        whole = (folder / "tokenizer.json").is_file()
        config["tokenizer_class"] = "PreTrainedTokenizerFast" if whole else "BertTokenizer"
        special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
        config = special | {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]} | config
        path.write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load_task_model(folder: str | Path) -> SavedModel:
    """Return the model of a folder, on the CPU in eval mode.

    Raises:
        UserError: the folder is not a fine-tuned model, or one of its files is damaged or belongs to another model.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UserError(f"There is no folder {path}. Give the folder that a finetune flow printed as its model.")
    try:
        shape = TaskShape.model_validate_json((path / TASK_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        inner = path / "model"
        hint = f"Did you mean {inner}?" if (inner / TASK_FILE).is_file() else "Train one with a finetune flow."
        raise UserError(f"{path} is not a fine-tuned model: it has no {TASK_FILE}. {hint}") from error
    except (ValidationError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path / TASK_FILE} cannot be read: {_in_a_line(error)}. Fine-tune again.") from error
    saved = SavedModel(heads.load(path), shape, TextTokenizer.from_folder(path))
    if fault := _fault(saved):
        raise UserError(f"{path}: {fault}. Copy the whole folder again from the run that made it.")
    # BERT marks the second text of a pair by type 1; encoders with a single type have no such embedding.
    saved.tokenizer.types, saved.tokenizer.by_word = saved.model.sizes.type_vocab_size, saved.model.sizes.by_word
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
