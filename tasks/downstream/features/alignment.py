"""Texts as tokens of any Hugging Face tokeniser, with the characters that each token covers.

There are two ways of cutting. `words` cuts as the tokeniser does. `characters` gives it each character by itself, as
eHealth does for tagging and extraction. Then every character that the tokeniser does not drop (white space, control
characters) begins with a token of its own. So any span of characters has tokens, even if English words, digits or
characters that normalisation lengthens are at its ends.

Offsets count the characters of the original text. [MASK] in a text is ordinary text; a lone surrogate is read as
U+FFFD.

With a linker the tokens of a text know which entities it mentions. A mention that begins or ends inside a token is left
out, and so is one that a later cut divides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import regex
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from infra.errors import UserError
from models.tokenizer.corpus import CorpusTokenizer, EncodedTexts, corpus_tokenizer

_SURROGATE = regex.compile(r"\p{Cs}")
"""Pattern of a lone surrogate: matches "\\ud83c", which json.loads makes of a cut emoji, and not "肺"."""
REPLACEMENT = "\ufffd"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
"""Files of a model folder that define its tokeniser; either of the first two suffices alone."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one text, without special ones."""

    ids: np.ndarray
    """int64 (L,)"""
    starts: np.ndarray
    """int64 (L,): first character that the token covers; equal for all tokens of one character."""
    ends: np.ndarray
    """int64 (L,): the character after the last one it covers."""
    mentions: np.ndarray | None = None
    """int64 (N, 4): as in `models.heads.examples.TokenSequence`, in tokens of the text; None if it was not linked."""

    def __len__(self) -> int:
        """Return L."""
        return len(self.ids)

    def __getitem__(self, part: slice) -> Tokens:
        """Return some neighbouring tokens, with the mentions that are whole in them; their characters stay the same."""
        first, end, _ = part.indices(len(self.ids))
        mentions = self.mentions
        if mentions is not None:
            mentions = mentions[(mentions[:, 0] >= first) & (mentions[:, 1] <= end)] - np.array([first, first, 0, 0])
        return Tokens(self.ids[first:end], self.starts[first:end], self.ends[first:end], mentions)

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and last token (inclusive) of characters [start, end).

        None if no token begins at `start` or none ends at `end`.
        """
        first = int(np.searchsorted(self.starts, start))
        last = int(np.searchsorted(self.ends, end, side="right")) - 1
        fits = first <= last and self.starts[first] == start and self.ends[last] == end
        return (first, last) if fits else None


Linker = Callable[[Sequence[str]], Sequence[np.ndarray]]
"""Function of texts that returns the mentions in each, int64 (N, 4): first character, the character after the last, row
of the entity table, number of the surface.
"""


class TextTokenizer:
    """A tokeniser and the special tokens that a sequence is framed with.

    `types` is the number of segment types that the encoder has; with a single one all tokens are of type 0. `linker`
    finds the mentions of entities, for an encoder that reads them. With `by_word`, `characters` gives each character
    the token of the word around it.
    """

    def __init__(self, tokenizer: Tokenizer, cls: str = "[CLS]", sep: str = "[SEP]", types: int = 2) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.types, self.by_word = types, False
        self.linker: Linker | None = None
        self._cls, self._sep = (np.array([_id_of(tokenizer, token)]) for token in (cls, sep))
        self._unknown = self._unknown_id()
        self._of_character: dict[str, tuple[int, ...]] = {}
        self._corpus_tokenizer = _faster(tokenizer)

    @classmethod
    def from_folder(cls, folder: str | Path) -> TextTokenizer:
        """Load the tokeniser of a model folder: its `tokenizer.json`, or BERT's tokenisation with its `vocab.txt`.

        Raises:
            UserError: the folder has neither, or the file cannot be read; the message names it.
        """
        folder = Path(folder)
        settings = _settings(folder)
        names = {name: _content(settings.get(f"{name}_token")) or f"[{name.upper()}]" for name in ("cls", "sep")}
        try:
            return cls(_read(folder, settings), names["cls"], names["sep"])
        except UserError as error:
            raise UserError(f"{folder}: {error}") from error

    @property
    def size(self) -> int:
        """Number of tokens, added ones included: an encoder needs as many embeddings."""
        return int(max(self._tokenizer.get_vocab().values())) + 1

    @property
    def unknown(self) -> int | None:
        """Id of the token for what the vocabulary lacks; None if there is none."""
        return self._unknown

    def words(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, cut as the tokeniser does."""
        return self._linked(texts, self._cut(texts))

    def characters(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, with every character cut by itself."""
        if self.by_word:
            return self._linked(texts, [_spread(tokens) for tokens in self._cut(texts)])
        self._learn({character for text in texts for character in text} - self._of_character.keys())
        return self._linked(texts, [self._by_character(text) for text in texts])

    def frame(self, *texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and types, int64 (L,), of [CLS] text [SEP] text [SEP] …: type 0 for the first text, else 1."""
        ids = [self._cls, *chain.from_iterable((text, self._sep) for text in texts)]
        first = len(texts[0]) + 2
        input_ids = np.concatenate(ids).astype(np.int64)
        return input_ids, ((np.arange(len(input_ids)) >= first) & (self.types > 1)).astype(np.int64)

    def _linked(self, texts: Sequence[str], found: list[Tokens]) -> list[Tokens]:
        """Return the tokens with the mentions of their texts, if there is a linker."""
        if self.linker is None:
            return found
        return [
            replace(tokens, mentions=_of_tokens(tokens, mentions))
            for tokens, mentions in zip(found, self.linker(texts), strict=True)
        ]

    def _cut(self, texts: Sequence[str]) -> list[Tokens]:
        if self._corpus_tokenizer is not None:
            return _split(self._corpus_tokenizer.encode(texts))
        found = self._tokenizer.encode_batch([plain_text(text) for text in texts], add_special_tokens=False)
        return [_tokens(encoding.ids, np.array(encoding.offsets, dtype=np.int64)) for encoding in found]

    def _by_character(self, text: str) -> Tokens:
        # A corpus has some 10,000 different characters, so each is tokenised once and then looked up.
        pieces = [self._of_character[character] for character in text]
        places = np.repeat(np.arange(len(text), dtype=np.int64), np.fromiter(map(len, pieces), np.int64, len(text)))
        return Tokens(np.fromiter(chain.from_iterable(pieces), np.int64, len(places)), places, places + 1)

    def _learn(self, characters: set[str]) -> None:
        """Look up characters; one that is unknown is looked up again in lower case."""
        unseen = sorted(characters)
        for character, tokens in zip(unseen, self._cut(unseen), strict=True):
            self._of_character[character] = tuple(tokens.ids.tolist())
        # A cased vocabulary without capitals would make [UNK] of the A in 维生素A.
        unknown = [one for one in unseen if self._unknown in self._of_character[one] and one.lower() != one]
        for character, tokens in zip(unknown, self._cut([one.lower() for one in unknown]), strict=True):
            self._of_character[character] = tuple(tokens.ids.tolist())

    def _unknown_id(self) -> int | None:
        token = getattr(self._tokenizer.model, "unk_token", None)
        if isinstance(self._tokenizer.model, models.Unigram):  # only its JSON tells which token is [UNK]
            found: int | None = json.loads(self._tokenizer.to_str())["model"]["unk_id"]
            return found
        return self._tokenizer.token_to_id(token) if isinstance(token, str) else None


def _of_tokens(tokens: Tokens, mentions: np.ndarray) -> np.ndarray:
    """Return mentions in tokens instead of characters: those that begin and end where tokens do."""
    if not len(tokens):
        return mentions[:0]
    firsts = np.searchsorted(tokens.starts, mentions[:, 0])
    behinds = np.searchsorted(tokens.ends, mentions[:, 1], side="right")
    begin = np.take(tokens.starts, firsts, mode="clip") == mentions[:, 0]
    whole = begin & (tokens.ends[behinds - 1] == mentions[:, 1]) & (firsts < behinds)
    return np.column_stack([firsts, behinds, mentions[:, 2:]])[whole]


def _spread(words: Tokens) -> Tokens:
    """Return a token for each character of each word: 高血压 病史 with the ids 7 9 gives 7 7 7 9 9."""
    lengths = words.ends - words.starts
    within = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)  # 0 1 2 0 1
    starts = np.repeat(words.starts, lengths) + within
    return Tokens(np.repeat(words.ids, lengths), starts, starts + 1)


def _id_of(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise UserError(f"The tokeniser has no {token}, which every sequence needs.")
    return found


def _faster(tokenizer: Tokenizer) -> CorpusTokenizer | None:
    """Return a table-driven equivalent, many times faster, if the tokeniser is one of ours."""
    try:
        return corpus_tokenizer(tokenizer.to_str())
    except ValueError:
        return None


def _split(encoded: EncodedTexts) -> list[Tokens]:
    ids, starts, ends = (encoded.ids.astype(np.int64), encoded.starts, encoded.ends)
    return [
        Tokens(ids[first:last], starts[first:last], ends[first:last])
        for first, last in pairwise(encoded.borders.tolist())
    ]


def _tokens(ids: Sequence[int], offsets: np.ndarray) -> Tokens:
    offsets = offsets.reshape(-1, 2)
    return Tokens(np.array(ids, dtype=np.int64), offsets[:, 0], offsets[:, 1])


def plain_text(text: str) -> str:
    """Return the text with U+FFFD in place of each lone surrogate; its length does not change."""
    return _SURROGATE.sub(REPLACEMENT, text)


def _read(folder: Path, settings: Mapping[str, Any]) -> Tokenizer:
    if (folder / "tokenizer.json").is_file():
        try:
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the Rust library raises plain Exception
            raise UserError(f"tokenizer.json cannot be read: {error}. Restore the original file.") from error
    if not (folder / "vocab.txt").is_file():
        raise UserError("there is neither tokenizer.json nor vocab.txt. Give the folder of a model with its tokeniser.")
    try:
        tokens = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"vocab.txt is not in UTF-8: {error}. Restore the original file.") from error
    ids = {token.rstrip("\r"): number for number, token in enumerate(tokens) if token.rstrip("\r")}
    if "[UNK]" not in ids:
        raise UserError("vocab.txt has no [UNK]. Use BERT's file: one token per line, special tokens included.")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _settings(folder: Path) -> dict[str, Any]:
    """Settings from the JSON files beside the vocabulary; missing files are skipped."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        try:
            content = json.loads((folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise UserError(f"{folder / name} cannot be read: {error}. Restore the original file.") from error
        found |= content if isinstance(content, dict) else {}
    return found


def _content(token: object) -> str | None:
    """Text of a special token; transformers writes some as objects: {"content": "[CLS]", …}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) and token else None
