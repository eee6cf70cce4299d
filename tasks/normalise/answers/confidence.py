"""Confidence of an answer: the probability that its three-character category is right, from how it was found.

A logistic model of a few signs (`SIGNS`), whose weights are in a table. benchmarks/terms/confidence.py fits them on
labelled diagnoses, on names of a graph that the index lacked, and on texts that are no diagnoses; its page shows how
well calibrated they are. A ranker's scores are not calibrated; with one, the confidence is its score."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.normalise.queries.compounds import ends_like_disease
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.icd_categories import same_category
from tasks.retrieve.match import Match

CONFIDENCE = Path(__file__).parents[1] / "tables" / "diagnosis_confidence.csv"
"""Default table, with the columns sign and weight."""

SIGNS: Mapping[str, str] = {
    "constant": "1",
    "query_share": "share of the query that the name has, rare characters counting more",
    "name_share": "share of the name that the query has",
    "equal": "1 if query and name are equal",
    "margin": "lead over the best candidate of another category, relative to the better score of both: -1 to 1",
    "from_graph": "1 if the name comes from a graph or from text",
    "from_english": "1 if the name is English",
    "length": "logarithm of the number of characters of the query",
    "compound": "1 if the text has several parts",
    "evidence": "weight of the characters that query and name share, rare ones counting more, at most 40, in tens",
    "disease": "1 if the query ends like the name of a disease",
}
"""Each sign with its meaning, in the order of `signs_of`."""

_MOST_EVIDENCE = 40.0
_CERTAIN = 0.999
"""Shares are sums of floats: from here on they count as 1."""


def signs_of(answer: Candidate, match: Match, found: Sequence[Candidate], parts: int) -> tuple[float, ...]:
    """Return the signs of an answer in the order of `SIGNS`.

    Args:
        match: the query and the name that it found.
        found: all candidates of that query, best first.
        parts: number of parts of the text.
    """
    own = next((one.score for one in found if one.code == answer.code and one.term == answer.term), 0.0)
    other = next((one.score for one in found if not same_category(one.code, answer.code)), 0.0)
    best = max(own, other)
    return (
        1.0,
        match.query_share,
        match.name_share,
        float(match.query_share > _CERTAIN and match.name_share > _CERTAIN),
        (own - other) / best if best else 0.0,
        float(match.source in ("graph", "text")),
        float(match.source == "english"),
        math.log(max(1, len(match.query))),
        float(parts > 1),
        min(match.evidence, _MOST_EVIDENCE) / 10,
        float(ends_like_disease(match.query.strip(")"))),
    )


class Calibration:
    """Weights of the signs."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        """Take the weight of each of `SIGNS`."""
        self.weights = {sign: weights[sign] for sign in SIGNS}
        self._values = tuple(self.weights.values())

    def confidence(self, signs: Sequence[float]) -> float:
        """Return the probability that an answer with these signs is right."""
        logit = sum(weight * sign for weight, sign in zip(self._values, signs, strict=True))
        return 1 / (1 + math.exp(-logit))

    def write(self, path: Path) -> None:
        """Write the table."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("sign", "weight"))
            writer.writerows((sign, f"{weight:.3f}") for sign, weight in self.weights.items())


def read_calibration(path: Path = CONFIDENCE) -> Calibration:
    """Read a table of weights.

    Raises:
        UserError: the file is unreadable or lacks a column or a sign, or a weight is not a number.
    """
    weights: dict[str, float] = {}
    for number, row in enumerate(read_table(path, ("sign", "weight")), start=2):
        try:
            weights[row["sign"]] = float(row["weight"])
        except ValueError as error:
            raise UserError(f"{path}, row {number}: the weight {row['weight']!r} is not a number.") from error
    if weights.keys() != SIGNS.keys():
        wrong = ", ".join(sorted(weights.keys() ^ SIGNS.keys()))
        raise UserError(f"{path} must have exactly the signs {', '.join(SIGNS)}; missing or unknown: {wrong}.")
    return Calibration(weights)
