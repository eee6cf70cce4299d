"""The tokeniser as stages use it on a corpus: ids and offsets of `tokenizer.json`, many times faster.

Texts are laid end to end as code points and looked up in a table: a Chinese character, a digit or a mark is one token
after one look-up. Runs of letters are cut by WordPiece, each distinct run once while it is cached. A text with a
character that is normalised with its neighbours (a combining mark, a numeral beside a number) is left to the Hugging
Face tokeniser.

Time and memory grow with the characters of a batch: about 90 bytes each.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import regex
from tokenizers import Tokenizer

from models.tokenizer.character_table import DEPENDS, LAST, LETTER, REPLACEMENT, SEVERAL, UNSEEN, CharacterTable
from models.tokenizer.wordpiece import MAX_WORD, SPECIAL_TOKENS, build_tokenizer

REMEMBERED_RUNS = 1 << 16
"""Number of runs of letters whose pieces are cached, the most recently used ones."""

_SURROGATE = regex.compile(r"\p{Cs}")
"""Pattern of a lone surrogate: matches "\\ud83c", which json.loads makes of a cut emoji, and not "肺"."""


class EncodedTexts(NamedTuple):
    """Tokens of texts, laid end to end."""

    ids: np.ndarray
    """uint8, uint16 or uint32 (T,), as small as the vocabulary allows."""
    starts: np.ndarray
    """int64 (T,): place in its original text of the first character that a token covers."""
    ends: np.ndarray
    """int64 (T,): the place after the last one."""
    borders: np.ndarray
    """int64 (N + 1,): first token of each text, and T."""


class CorpusTokenizer:
    """A tokeniser that adds no special tokens; [MASK] in a text is ordinary text.

    A lone surrogate is read as U+FFFD.

    Args:
        tokenizer_json: content of a `tokenizer.json` that `save_tokenizer` wrote.

    Raises:
        ValueError: it cuts words differently from `models.tokenizer.wordpiece`.
    """

    def __init__(self, tokenizer_json: str) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._tokenizer.encode_special_tokens = True
        if _way_of_cutting(tokenizer_json) != _our_way_of_cutting():
            raise ValueError(
                "this tokenizer.json was not written by models.tokenizer.wordpiece.save_tokenizer of this version"
            )
        self._ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=False)
        self._unknown = self._ids["[UNK]"]
        self._id_type = np.min_scalar_type(max(self._ids.values()))
        self._table = CharacterTable(self._tokenizer)
        self._pieces = functools.lru_cache(REMEMBERED_RUNS)(self._cut)

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Return the tokens of every text, in order."""
        firsts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        points = np.frombuffer("\n".join([*texts, ""]).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        forms, sources, left_out = self._normalised(points, firsts)
        tokens = self._table.token[forms]
        self._cut_runs(forms, tokens)
        borders = np.flatnonzero(tokens != LETTER)  # where a token or a blank begins; the last one is a blank
        of_tokens = np.flatnonzero(tokens[borders] >= 0)
        places, lasts = borders[of_tokens], borders[of_tokens + 1] - 1
        starts, ends = (places, lasts) if sources is None else (sources[places], sources[lasts])
        of_text = np.searchsorted(starts, firsts)
        before = np.repeat(firsts[:-1], np.diff(of_text))
        ids = tokens[places].astype(self._id_type)
        encoded = EncodedTexts(ids, starts - before, ends + 1 - before, of_text)
        return self._with_left_out(encoded, texts, left_out) if len(left_out) else encoded

    def _normalised(self, points: np.ndarray, firsts: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Normalised characters (uint32), the place each comes from (None: its own), and the texts left out.

        Those cannot be normalised this way; their characters become blanks.
        """
        forms = self._table.form[points]
        left_out = np.empty(0, dtype=np.int64)
        strange = np.flatnonzero(forms > LAST)
        if (forms[strange] == UNSEEN).any():
            self._table.learn(points[strange[forms[strange] == UNSEEN]])
            forms = self._table.form[points]
            strange = np.flatnonzero(forms > LAST)
        depends = np.union1d(strange[forms[strange] == DEPENDS], self._table.separated(points, strange))
        if len(depends):
            left_out = np.unique(np.searchsorted(firsts, depends, side="right") - 1)
            for text in left_out:
                forms[firsts[text] : firsts[text + 1]] = ord("\n")
            strange = strange[forms[strange] == SEVERAL]
        if not len(strange):
            return forms, None, left_out
        return *self._expanded(points, forms, strange), left_out

    def _expanded(self, points: np.ndarray, forms: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Insert the characters that some places become: none or several."""
        codes, which = np.unique(points[places], return_inverse=True)
        several = [self._table.several[code] for code in codes.tolist()]
        lengths = np.array([len(form) for form in several])[which]
        counts = np.ones(len(points), dtype=np.int64)
        counts[places] = lengths
        sources = np.repeat(np.arange(len(points)), counts)
        grown = forms[sources]
        grown[grown == SEVERAL] = _gathered(several, which, lengths)
        return grown, sources

    def _cut_runs(self, forms: np.ndarray, tokens: np.ndarray) -> None:
        """Write the id of each piece of a run of letters at its first letter; the other letters stay `LETTER`."""
        letters = np.flatnonzero(tokens == LETTER)
        if not len(letters):
            return
        begins = np.flatnonzero(np.diff(letters, prepend=-2) > 1)
        text = forms[letters].astype("<u4").tobytes().decode("utf-32-le")
        numbers: dict[str, int] = {}
        runs = (text[start:end] for start, end in pairwise([*begins.tolist(), len(text)]))
        which = np.fromiter((numbers.setdefault(run, len(numbers)) for run in runs), np.int64, len(begins))
        # A run of 101 letters is [UNK] as a longer one is, so it need not be cached whole.
        ids, offsets = zip(*(self._pieces(run[: MAX_WORD + 1]) for run in numbers), strict=True)
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))[which]
        at = np.repeat(letters[begins], lengths) + _gathered(offsets, which, lengths)
        tokens[at] = _gathered(ids, which, lengths)

    def _cut(self, run: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids of the pieces of a run, the longest match first, and the letter at which each begins."""
        ids: list[int] = []
        begins: list[int] = []
        start = 0
        while start < len(run) <= MAX_WORD:
            for end in range(len(run), start, -1):
                number = self._ids.get(run[:end] if start == 0 else f"##{run[start:end]}")
                if number is not None:
                    ids.append(number)
                    begins.append(start)
                    start = end
                    break
            else:
                return (self._unknown,), (0,)
        return (tuple(ids), tuple(begins)) if ids else ((self._unknown,), (0,))

    def _with_left_out(self, encoded: EncodedTexts, texts: Sequence[str], left_out: np.ndarray) -> EncodedTexts:
        """Insert the tokens of the texts left out, as the Hugging Face tokeniser cuts them."""
        batch = [_SURROGATE.sub(REPLACEMENT, texts[number]) for number in left_out]
        found = self._tokenizer.encode_batch(batch, add_special_tokens=False)
        lengths = np.array([len(encoding) for encoding in found])
        at = np.repeat(encoded.borders[left_out], lengths)
        ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in found), self._id_type, len(at))
        offsets = np.array([pair for encoding in found for pair in encoding.offsets], dtype=np.int64).reshape(-1, 2)
        grown = np.zeros(len(texts) + 1, dtype=np.int64)
        grown[left_out + 1] = lengths
        return EncodedTexts(
            np.insert(encoded.ids, at, ids),
            np.insert(encoded.starts, at, offsets[:, 0]),
            np.insert(encoded.ends, at, offsets[:, 1]),
            encoded.borders + np.cumsum(grown),
        )


@functools.lru_cache(maxsize=2)
def corpus_tokenizer(tokenizer_json: str) -> CorpusTokenizer:
    """Return the tokeniser of a `tokenizer.json`, with what it learnt from earlier parts."""
    return CorpusTokenizer(tokenizer_json)


def _gathered(groups: Sequence[Sequence[int] | np.ndarray], which: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """groups[which[0]], groups[which[1]], … end to end; `lengths` are theirs."""
    flat = np.fromiter(chain.from_iterable(groups), np.int64)
    firsts = np.cumsum([0, *map(len, groups)])[which]
    return flat[np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())]


def _way_of_cutting(tokenizer_json: str) -> list[object]:
    content = json.loads(tokenizer_json)
    settings = ("unk_token", "continuing_subword_prefix", "max_input_chars_per_word")
    return [content["normalizer"], content["pre_tokenizer"], *(content["model"].get(name) for name in settings)]


@functools.cache
def _our_way_of_cutting() -> list[object]:
    return _way_of_cutting(build_tokenizer(SPECIAL_TOKENS).to_str())
