"""The tokeniser: one normalisation and one way to cut words, for building the vocabulary and for every model.

Normalisation (eHealth, section 4.1; what the paper leaves open is settled in the project's design): Roman
numerals and circled numbers become digits, full-width, enclosed and squared forms their plain ones (NFKC), all
lower case. Words are runs of letters; a Chinese character, a digit, a punctuation mark, a symbol or an emoji
stands alone. All of it is inside `tokenizer.json`, so whoever loads the exported folder gets what training saw.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import regex
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Ids 0 to 4, in BERT's order."""

WORD = r"(?:(?!\p{Han})[\p{L}\p{M}])+|\S"
"""A run of letters that are not Chinese characters, or any other single character that is not white space."""

NUMERALS = {
    **{chr(first + i): str(i + 1) for first in (0x2160, 0x2170) for i in range(12)},  # Ⅰ … Ⅻ, ⅰ … ⅻ
    **dict(zip("ⅬⅭⅮⅯⅼⅽⅾⅿ", ["50", "100", "500", "1000"] * 2, strict=True)),
    **{chr(first + i): str(i + 1) for first in (0x2776, 0x2780, 0x278A) for i in range(10)},  # ❶, ➀, ➊ …
    **{chr(0x24EB + i): str(i + 11) for i in range(10)},  # ⓫ … ⓴
}
"""Numerals that NFKC leaves alone or spells with letters (Ⅱ would become II)."""

_NUMERAL_TABLE = str.maketrans(NUMERALS)
_WORD = regex.compile(WORD)


def normalise(text: str) -> str:
    """What `tokenizer.json` does to text before it cuts words; the two agree on every input."""
    return unicodedata.normalize("NFKC", text.translate(_NUMERAL_TABLE)).lower()


def split_words(text: str) -> list[str]:
    """The words of a text after normalisation."""
    return _WORD.findall(normalise(text))


def build_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """The tokeniser of a vocabulary, id = place in the list.

    Raises:
        ValueError: the special tokens do not come first, or a token occurs twice.
    """
    if tuple(vocabulary[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
        raise ValueError(f"a vocabulary begins with {' '.join(SPECIAL_TOKENS)}, not {list(vocabulary[:5])}")
    ids = {token: number for number, token in enumerate(vocabulary)}
    if len(ids) != len(vocabulary):
        twice = next(token for number, token in enumerate(vocabulary) if ids[token] != number)
        raise ValueError(f"the vocabulary holds {twice!r} twice")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    replacements = [normalizers.Replace(old, new) for old, new in NUMERALS.items()]
    tokenizer.normalizer = normalizers.Sequence([*replacements, normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(WORD), "isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def save_tokenizer(vocabulary: Sequence[str], folder: Path, max_length: int) -> None:
    """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`, which `AutoTokenizer` loads."""
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    build_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
