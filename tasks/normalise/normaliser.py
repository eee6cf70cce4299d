"""Free-text diagnoses to standard terms: candidates, their ranking, the decision.

    normaliser = Normaliser("path/to/normaliser")
    normaliser.normalise(["2型糖尿病伴视网膜病变", "冠心病"])

The folder is that of an artifact of the stage `normaliser` (index, ranker and decision), or of the stage
`candidate_index` alone: then nothing was learned, and the best candidate is the answer, of a compound that of each
part.

Time grows with diagnoses and candidates; memory with one slab of diagnoses, the index and the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from infra.errors import UserError
from models import heads
from tasks.downstream.features.alignment import TextTokenizer
from tasks.normalise.decision import Judged, TermDecision
from tasks.normalise.queries import Found, find
from tasks.normalise.query_rules import QueryRules
from tasks.normalise.query_settings import load_rules
from tasks.normalise.ranker import MAX_LENGTH, TermRanker
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import FIELDS_FILE, EmbeddedIndex
from tasks.retrieve.icd_categories import Categories, categories_of

INDEX, MODEL, DECISION = "index", "model", "decision.json"

SLAB = 1_000
"""Diagnoses that are in memory with their candidates at once."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Normalised:
    """A diagnosis and what became of it."""

    diagnosis: str
    terms: tuple[Candidate, ...]
    """The answers, best first; `score` is a probability where a ranker was trained. Empty where nothing was found."""
    considered: tuple[Candidate, ...]
    """All candidates, best first."""


class Retrieval:
    """From diagnoses to candidates: an index, the rules of queries, and the categories of the list.

    Args:
        k: candidates a diagnosis.
    """

    def __init__(
        self,
        index: CandidateIndex,
        entries: Sequence[Entry] = (),
        *,
        rules: QueryRules | None = None,
        k: int = 100,
    ) -> None:
        self.k = k
        self._index = index
        self._rules = rules or QueryRules.read()
        self._categories: Categories = categories_of(entries)

    def candidates(self, diagnoses: Sequence[str], k: int | None = None) -> list[list[Candidate]]:
        """At most `k` candidates of each, best first."""
        return [one.candidates for one in self.find(diagnoses, k)]

    def find(self, diagnoses: Sequence[str], k: int | None = None) -> list[Found]:
        """The same, with how many diagnoses each one is made of, and what its parts found."""
        return find(self._index, diagnoses, k or self.k, self._rules, self._categories)

    def parts(self, diagnoses: Sequence[str]) -> list[int]:
        """How many diagnoses each one is made of; at least 1."""
        return self._rules.parts(diagnoses)


class Normaliser:
    """Gives standard terms.

    Args:
        folder: see the module.
        k: candidates a diagnosis that are ranked.
        device: `cuda` or `cpu`; by default the first where there is one.
        index: another engine for the list of the folder's own index, as `open_server_index` gives it
            (tasks/normalise/publish.py). One that finds terms of another list gives answers of another list.

    Raises:
        UserError: the folder is none of a normaliser, or a file of it cannot be read.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        k: int | None = None,
        device: str | None = None,
        index: CandidateIndex | None = None,
    ) -> None:
        path = Path(folder).expanduser()
        own = EmbeddedIndex(index_folder(path))
        entries = [Entry(code, term) for code, term in zip(own.codes, own.terms, strict=True)]
        self.decision, ranked_candidates, max_length = read_decision(path)
        self.retrieval = Retrieval(
            with_categories(index or own, own), entries, rules=load_rules(own.folder), k=k or ranked_candidates
        )
        self._ranker = load_ranker(path / MODEL, device, max_length) if (path / MODEL).is_dir() else None

    @property
    def is_trained(self) -> bool:
        """Whether a ranker orders the candidates."""
        return self._ranker is not None

    def normalise(self, diagnoses: Sequence[str], progress: Progress = lambda done: None) -> list[Normalised]:
        """The standard terms of each diagnosis, in order.

        Args:
            progress: told the diagnoses done so far.
        """
        return list(self.stream(diagnoses, progress))

    def stream(self, diagnoses: Sequence[str], progress: Progress = lambda done: None) -> Iterator[Normalised]:
        """The same, a slab at a time."""
        for first in range(0, len(diagnoses), SLAB):
            slab = diagnoses[first : first + SLAB]
            for diagnosis, judged in zip(slab, self._judged(slab), strict=True):
                ordered = self.decision.order(judged)
                yield Normalised(diagnosis, self.decision.choose(ordered, judged.parts), ordered)
            progress(first + len(slab))

    def _judged(self, slab: Sequence[str]) -> list[Judged]:
        found = self.retrieval.find(slab)
        if self._ranker is not None:
            return self._ranker.judge(slab, [one.candidates for one in found], [one.parts for one in found])
        return [_by_likeness(one) for one in found]


def _by_likeness(found: Found) -> Judged:
    """Where nothing ranks, the best of each part comes first and is an answer, the rest as retrieval has it."""
    first = set(found.of_parts)
    ordered = sorted(found.candidates, key=lambda one: one not in first)
    return Judged(max(1, len({one.term for one in first})), tuple(ordered))


def load_ranker(folder: Path, device: str | None = None, max_length: int | None = None) -> TermRanker:
    """The ranker that a normaliser's folder holds.

    Args:
        max_length: tokens of a pair; None: CHIP-CDN's, or the encoder's if it has fewer positions.

    Raises:
        UserError: a file is missing or cannot be read.
    """
    model = heads.load(folder).to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    tokenizer, sizes = TextTokenizer.from_folder(folder), model.encoder.config
    tokenizer.types = sizes.type_vocab_size
    return TermRanker(model, tokenizer, max_length or min(MAX_LENGTH, sizes.max_positions))


class Kept(NamedTuple):
    """What `decision.json` holds."""

    decision: TermDecision
    k: int
    """Candidates a diagnosis for which it was tuned."""
    max_length: int | None
    """Tokens of a pair that the ranker was trained with; see `load_ranker`."""


def write_decision(folder: Path, decision: TermDecision, k: int, max_length: int | None = None) -> None:
    """Keep the decision, and for what it was tuned."""
    held = {**asdict(decision), "k": k, "max_length": max_length}
    (folder / DECISION).write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


def read_decision(folder: Path) -> Kept:
    """The decision of a normaliser and what it was tuned for; without one, as many answers as parts.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / DECISION
    if not path.is_file():
        return Kept(TermDecision(threshold=0.0, bounded=True), 100, None)
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        decision = TermDecision(float(held["threshold"]), bool(held["bounded"]), float(held["retrieval_weight"]))
        max_length = held.get("max_length")
        return Kept(decision, int(held["k"]), None if max_length is None else int(max_length))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}). Train the normaliser again.") from error


def index_folder(path: Path) -> Path:
    """The folder of the index that a normaliser's folder holds, or is; raises `UserError` where there is none."""
    for folder in (path / INDEX, path):
        if (folder / FIELDS_FILE).is_file():
            return folder
    raise UserError(
        f"{path} holds no normaliser. Give what normalise/chip-cdn or normalise/index printed as its folder."
    )
