"""Sentences cut by several vocabularies for comparison, as in eHealth's Table 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import regex
from tokenizers import Encoding, Tokenizer

from tasks.deidentify import deidentify

EXAMPLES = 12
"""Number of sentences shown."""

LENGTHS = range(6, 41)
"""Characters of a sentence that is short enough to compare at a glance, and long enough to say something."""

_SENTENCE = regex.compile(r"[^。！？；!?;\n]+")
"""A sentence without its end: `头痛三天` of `头痛三天。`."""
_LETTERS = regex.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}]+")
"""A run of letters: `TSHR` of `TSHR抗体`."""


def draw_examples(
    texts: Sequence[str], tokenizers: Mapping[str, Tokenizer], abbreviations: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return sentences with different abbreviations, those first whose abbreviation the vocabularies cut differently.

    A text without abbreviations gives one sentence. Identifiers are replaced.

    Returns:
        For each sentence its text and, by vocabulary, its tokens as [token, differs from another vocabulary's].
    """
    drawn: dict[str, str] = {}
    for sentence in _sentences(texts):
        known = [run for run in map(str.lower, _LETTERS.findall(sentence)) if run in abbreviations]
        rare = min(known, key=lambda run: (abbreviations[run], run), default="")
        drawn.setdefault(rare, sentence)
    plain = drawn.pop("", None)
    order = sorted(drawn, key=lambda run: (not _differs(run, tokenizers), -abbreviations[run], run))
    sentences = [drawn[run] for run in order[:EXAMPLES]] or ([plain] if plain else [])
    return [_example(sentence, tokenizers) for sentence in sentences]


def _differs(run: str, tokenizers: Mapping[str, Tokenizer]) -> bool:
    return len({tuple(one.encode(run, add_special_tokens=False).tokens) for one in tokenizers.values()}) > 1


def _sentences(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        for match in _SENTENCE.finditer(text):
            sentence = match[0].strip()
            if len(sentence) in LENGTHS:
                treated, _ = deidentify(sentence)
                yield treated


def _example(sentence: str, tokenizers: Mapping[str, Tokenizer]) -> dict[str, Any]:
    cuts = {name: one.encode(sentence, add_special_tokens=False) for name, one in tokenizers.items()}
    shared = set.intersection(*(set(_pieces(cut)) for cut in cuts.values()))
    tokens = {
        name: [[token, piece not in shared] for token, piece in zip(cut.tokens, _pieces(cut), strict=True)]
        for name, cut in cuts.items()
    }
    return {"text": sentence, "tokens": tokens}


def _pieces(cut: Encoding) -> list[tuple[int, int, bool]]:
    """Return start and end of every token in the text, and False for [UNK]."""
    return [(start, end, token != "[UNK]") for (start, end), token in zip(cut.offsets, cut.tokens, strict=True)]
