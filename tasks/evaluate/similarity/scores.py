"""Stage `similarity_scores`: how often a model finds the equal name among 20 candidates (SMedBERT, section 4.3).

The candidate whose vector has the highest cosine with the query's is the answer, and Acc@1 the share of right answers
in each set. Of n equally similar candidates each is answered with 1/n. Chance is 1/20. Intervals resample entities,
because the samples of one entity are alike.

The table `similarity_answers` has every sample, `summary.json` the figures. Time grows with the tokens of the distinct
names, memory with their vectors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cdist

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, stage
from models.word_vectors import WordVectors
from tasks.evaluate.similarity.learnt import graphs_behind, joined_by
from tasks.evaluate.similarity.name_vectors import EncoderNames, NameVectors, WordNames
from tasks.evaluate.similarity.params import NEGATIVES, SimilarityScoresParams
from tasks.metrics.scores import Metric
from tasks.metrics.significance import bootstrap_interval

SETS = {"d1": None, "d2": "is_close", "d3": "is_rare"}
"""Column that says whether a sample is of the set; all are of D1."""
EQUAL = 1e-9
"""Difference of cosines up to which two candidates are equally similar: equal vectors differ by rounding alone."""

Row = dict[str, Any]

_MEAN = Metric(tally=lambda sums, counts: np.stack([sums, counts], 1), value=lambda sums: sums[..., 0] / sums[..., 1])
"""Mean over samples; the unit of an interval is an entity, with the sum and the number of its samples."""


@stage(name="similarity_scores", version=2, params=SimilarityScoresParams, tables=("similarity_answers",), heavy=True)
def similarity_scores(inputs: Mapping[str, Any], params: SimilarityScoresParams, out: Output) -> None:
    """Score `inputs["model"]`, a `ModelFolder`, or `inputs["words"]`, raw files of word vectors, on `inputs["sets"]`.

    `inputs["characters"]`, if given, are vectors for names that are no word. `inputs["checkpoint"]`, if given, is the
    run that the model is from. Without model and words, names are compared by their spelling (Jaro-Winkler).

    Raises:
        UserError: there are no samples, the folder is no encoder, or no name has a vector.
    """
    samples = inputs["sets"].to_table("similarity_samples").to_pylist()
    if not samples:
        counters = inputs["sets"].manifest.counters
        raise UserError(
            f"{inputs['sets'].path} has no samples: of {counters.get('pairs_in', 0):,} pairs, "
            f"{counters.get('without_type', 0):,} have no type, and for the others fewer than {NEGATIVES} names of the "
            "type resemble the right one. Give a larger graph, or lower similarity_sets.similarity."
        )
    names = sorted({name for row in samples for name in (row["query"], row["truth"], *row["negatives"])})
    places = {name: place for place, name in enumerate(names)}
    source = _source(inputs, params)
    if source is None:
        answered, unknown = [_answer(row, _spelling(row)) for row in samples], 0
    else:
        vectors_ND = unit(source.vectors(names))
        unknown = int((~vectors_ND.any(1)).sum())
        if unknown == len(names):
            raise UserError(
                f"{_path(inputs)}: none of the {len(names):,} names has a known word, character or token. Give vectors "
                "or a model of this language."
            )
        answered = [_answer(row, _cosines(row, vectors_ND, places)) for row in samples]
    joined = _joined(samples, inputs, params)
    rows = [{**row, "is_joined": None if joined is None else bool(joined[place])} for place, row in enumerate(answered)]
    with out.part() as part:
        part.write("similarity_answers", rows)
        part.count("names", len(names))
        part.count("unknown_names", unknown)
    summary = {"names": len(names), "unknown_names": unknown, "sets": summarise(rows, params.rounds, params.seed)}
    out.add_bytes("summary.json", json.dumps(summary, ensure_ascii=False, indent=1).encode())


def summarise(rows: Sequence[Row], rounds: int, seed: int) -> dict[str, dict[str, Any] | None]:
    """Return the figures of each set; None for an empty one.

    They are samples, entities, accuracy with its 95 % interval (low, high), and of the samples those that a graph
    joins which the model learnt from (None if that is unknown).
    """
    return {
        name: _figures([row for row in rows if flag is None or row[flag]], rounds, seed) for name, flag in SETS.items()
    }


def unit(vectors_ND: np.ndarray) -> np.ndarray:
    """Return the vectors with length 1, float64 (N, D); zeros stay zeros."""
    wide_ND = vectors_ND.astype(np.float64)
    lengths_N = np.linalg.norm(wide_ND, axis=1, keepdims=True)
    return np.divide(wide_ND, lengths_N, out=np.zeros_like(wide_ND), where=lengths_N > 0)


def _figures(rows: Sequence[Row], rounds: int, seed: int) -> dict[str, Any] | None:
    if not rows:
        return None
    _, entity = np.unique([row["entity_id"] for row in rows], return_inverse=True)
    credits = np.bincount(entity, weights=[row["credit"] for row in rows])
    found = bootstrap_interval(
        _MEAN, _MEAN.tally(credits, np.bincount(entity).astype(np.float64)), rounds=rounds, seed=seed
    )
    joined = [row["is_joined"] for row in rows]
    return {
        "samples": len(rows),
        "entities": len(credits),
        "accuracy": found.score,
        "low": found.low,
        "high": found.high,
        "joined": None if None in joined else sum(joined),
    }


def _candidates(row: Row) -> list[str]:
    """Return the candidates in order of their names, so that nothing tells where the right one is."""
    return sorted([row["truth"], *row["negatives"]])


def _cosines(row: Row, vectors_ND: np.ndarray, places: Mapping[str, int]) -> np.ndarray:
    return vectors_ND[[places[name] for name in _candidates(row)]] @ vectors_ND[places[row["query"]]]


def _spelling(row: Row) -> np.ndarray:
    return cdist([row["query"]], _candidates(row), scorer=JaroWinkler.similarity, dtype=np.float64)[0]


def _answer(row: Row, similar: np.ndarray) -> Row:
    """Return the row of `similarity_answers` for the candidates' similarities, without `is_joined`."""
    candidates = _candidates(row)
    best = np.flatnonzero(similar >= similar.max() - EQUAL)
    credit = float(candidates.index(row["truth"]) in best) / len(best)
    kept = {name: row[name] for name in ("entity_id", "query", "truth", "is_close", "is_rare")}
    return {**kept, "chosen": candidates[best[0]], "credit": credit}


def _joined(samples: Sequence[Row], inputs: Mapping[str, Any], params: SimilarityScoresParams) -> np.ndarray | None:
    """Return whether training joined the two names of each sample; None for a model of unknown training."""
    checkpoint: Artifact | None = inputs.get("checkpoint")
    if "model" in inputs and checkpoint is None and not params.random_weights:
        return None
    graphs = [] if checkpoint is None else graphs_behind(checkpoint)
    return joined_by([(row["query"], row["truth"]) for row in samples], graphs)


def _source(inputs: Mapping[str, Any], params: SimilarityScoresParams) -> NameVectors | None:
    if "model" in inputs:
        model = inputs["model"]
        return EncoderNames.of_folder(model.path, params.seed if params.random_weights else None, model.knowledge)
    if "words" not in inputs:
        return None
    characters = WordVectors.read(_local(inputs["characters"])) if "characters" in inputs else None
    return WordNames(WordVectors.read(_local(inputs["words"])), characters)


def _path(inputs: Mapping[str, Any]) -> Any:
    return inputs["model"].path if "model" in inputs else inputs["words"].path


def _local(given: Any) -> Path:
    return Path(given.path)
