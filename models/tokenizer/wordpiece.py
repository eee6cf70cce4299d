"""The tokeniser: one normalisation and one way to cut words, for building the vocabulary and for every model.

A text is normalised (models/tokenizer/normal_form.py). Words are runs of Latin, Greek or Cyrillic letters; everything
else (a Chinese character, a digit, a punctuation mark, a symbol, an emoji) is a token by itself. All of it is inside
`tokenizer.json`, so whoever loads the exported folder gets what training saw.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import regex
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from models.tokenizer.normal_form import NORMALISER, normalise

# Parts already run in parallel; threads inside a part would compete with its neighbours for the same cores.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Ids 0 to 4, in BERT's order."""

MAX_WORD = 100
"""Number of letters above which WordPiece gives up on a run and returns [UNK]."""

WORD = r"[\p{Latin}\p{Greek}\p{Cyrillic}]+|\S"
"""A run of letters, or any other single character that is not white space: "mg" or "高", not "高血" nor " "."""

_WORD = regex.compile(WORD)


def split_words(text: str) -> list[str]:
    """Return the words of a text after normalisation."""
    return _WORD.findall(normalise(text))


def build_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """Return the tokeniser of a vocabulary; a token's id is its place in the list.

    Raises:
        ValueError: the special tokens are not first, or a token occurs twice.
    """
    if tuple(vocabulary[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
        raise ValueError(f"a vocabulary must begin with {' '.join(SPECIAL_TOKENS)}, got {list(vocabulary[:5])}")
    ids = {token: number for number, token in enumerate(vocabulary)}
    if len(ids) != len(vocabulary):
        twice = next(token for number, token in enumerate(vocabulary) if ids[token] != number)
        raise ValueError(f"the vocabulary contains {twice!r} twice")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD))
    tokenizer.normalizer = NORMALISER
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def save_tokenizer(vocabulary: Sequence[str], folder: Path, max_length: int) -> None:
    """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`, which `AutoTokenizer` loads.

    The class named in them is the one that uses `tokenizer.json` unchanged; BERT's own would replace our normalisation.
    """
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    build_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
