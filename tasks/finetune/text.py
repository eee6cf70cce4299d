"""Files that turn texts into a model's inputs: those of its tokeniser and, if it reads mentions, of its linker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from models.heads.encoders import AnyEncoder, as_task_encoder
from tasks.downstream.features.alignment import TOKENIZER_FILES, TextTokenizer
from tasks.knowledge.names import NAMES_FILE, linker_of

TOKENIZER_CONFIG = "tokenizer_config.json"


def open_tokenizer(folder: str | Path, encoder: AnyEncoder) -> TextTokenizer:
    """Return the tokeniser of a model's folder for its encoder, as `fit_tokenizer` does."""
    return fit_tokenizer(TextTokenizer.from_folder(folder), folder, encoder)


def fit_tokenizer(tokenizer: TextTokenizer, folder: str | Path, encoder: AnyEncoder) -> TextTokenizer:
    """Return the tokeniser of a model's folder, made to cut for its encoder and to link if that reads mentions.

    Raises:
        UserError: the folder lacks the names to link, or they are of another graph than the encoder's.
    """
    reader = as_task_encoder(encoder)
    # BERT marks the second text of a pair by type 1; encoders with a single type have no such embedding.
    tokenizer.types, tokenizer.by_word = reader.sizes.type_vocab_size, reader.sizes.by_word
    tokenizer.linker = None if reader.graph is None else linker_of(folder, reader.graph)
    return tokenizer


def copy_text_files(source: str | Path, folder: Path) -> None:
    """Copy the files that `open_tokenizer` reads; `AutoTokenizer` then gives the ids and types of `TextTokenizer`.

    RoFormer's own class, which would also be the default for rotary encoders, needs jieba and gives no types.
    """
    for name in (*TOKENIZER_FILES, NAMES_FILE):
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
