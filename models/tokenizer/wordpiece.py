"""The tokeniser: one normalisation and one way to cut words, for building the vocabulary and for every model.

Normalisation (eHealth, section 4.1; the project's design settles what the paper leaves open): Roman numerals and
circled numbers become digits, full-width, enclosed and squared forms their plain ones (NFKC), all in lower case;
invisible characters are removed. Words are runs of Latin, Greek or Cyrillic letters; everything else (a Chinese
character, a digit, a punctuation mark, a symbol, an emoji) is a token by itself. All of it is inside `tokenizer.json`,
so whoever loads the exported folder gets what training saw.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import regex
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

# Parts already run in parallel; threads inside a part would compete with its neighbours for the same cores.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Ids 0 to 4, in BERT's order."""

MAX_WORD = 100
"""Number of letters above which WordPiece gives up on a run and returns [UNK]."""

WORD = r"[\p{Latin}\p{Greek}\p{Cyrillic}]+|\S"
"""A run of letters, or any other single character that is not white space: "mg" or "高", not "高血" nor " "."""

INVISIBLE = r"[\p{Cc}\p{Cf}\p{Co}\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}&&[^\t\n\x{0B}\x{0C}\r\x{85}]]"
"""Control, format and private-use characters and variation selectors, but not line ends: U+200B, not U+0009."""

NUMERALS = {
    **{chr(first + i): str(i + 1) for first in (0x2160, 0x2170) for i in range(12)},  # Ⅰ … Ⅻ, ⅰ … ⅻ
    **dict(zip("ⅬⅭⅮⅯⅼⅽⅾⅿ", ["50", "100", "500", "1000"] * 2, strict=True)),
    **{chr(first + i): str(i + 1) for first in (0x2776, 0x2780, 0x278A, 0x24F5) for i in range(10)},  # ❶ ➀ ➊ ⓵
    **{chr(0x24EB + i): str(i + 11) for i in range(10)},  # ⓫ … ⓴
    **dict.fromkeys("⓿🄋🄌", "0"),
}
"""Numerals that NFKC leaves alone or spells with letters (Ⅱ would become II)."""


def _numeral_steps() -> list[normalizers.Normalizer]:
    """One replacement per value: each is a pass over the text."""
    spellings: dict[str, str] = defaultdict(str)
    for numeral, value in NUMERALS.items():
        spellings[value] += numeral
    return [normalizers.Replace(Regex(f"[{spelling}]"), value) for value, spelling in spellings.items()]


_PLAIN = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
_FULL = normalizers.Sequence([*_numeral_steps(), normalizers.Replace(Regex(INVISIBLE), ""), _PLAIN])
# Few texts contain what the other steps look for; for the rest, two steps do the same in a fifth of the time. The
# pattern matches "Ⅳ期" and U+200B, and not "IV 期".
_NEEDS_ALL_STEPS = regex.compile(
    r"[\p{Cc}\p{Cf}\p{Co}\uFE00-\uFE0F\U000E0100-\U000E01EF" + "".join(NUMERALS) + r"--[\t\n\r]]", regex.VERSION1
)
_WORD = regex.compile(WORD)


def normalise(text: str) -> str:
    """Normalise a text as `tokenizer.json` does before it cuts words, by the same code."""
    steps = _FULL if _NEEDS_ALL_STEPS.search(text) else _PLAIN
    return steps.normalize_str(text)


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
    tokenizer.normalizer = _FULL
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
