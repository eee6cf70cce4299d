"""A tokeniser that cuts texts into the words of a table of vectors, whatever those are: characters, words or both.

A text becomes the most probable sequence of words, each as probable as Zipf's law has it for its rank in the table. So
高血压 is one word if it has a vector, and three characters if only they have one. What has no vector is [UNK].
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NEVER = -1e4
"""Log-probability of a special token as a word of a text."""


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """Return the tokeniser of some words, the most frequent first; their ids follow those of the special tokens.

    Texts are read in lower case if all words are, and in NFKC if all words are. White space separates words.
    """
    scored = [(token, _NEVER) for token in SPECIAL]
    scored += [(word, -math.log(rank + 1)) for rank, word in enumerate(words, start=1)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=SPECIAL.index("[UNK]"), byte_fallback=False))
    forms: list[normalizers.Normalizer] = []
    if all(unicodedata.is_normalized("NFKC", word) for word in words):
        forms.append(normalizers.NFKC())
    if all(word == word.lower() for word in words):
        forms.append(normalizers.Lowercase())
    tokenizer.normalizer = normalizers.Sequence(forms)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer
