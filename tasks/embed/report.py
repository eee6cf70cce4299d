"""Stage `report_vectors`: a page about word vectors: neighbours, scores by a knowledge graph, and a picture.

Several vectors may be compared; scores are then on the same pairs (tasks/embed/quality.py). The picture shows the first
of them: the most frequent names of the graph on a plane, coloured by type (CMedLMs, Figure 3).

The table `vector_scores` has the scores, `report.html` is the page, `vectors.png` the picture.
Time and memory grow with the vectors, the graph's names and triples, and the points of the picture.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from models.word_vectors import WordVectors
from tasks.embed.adopt import name_of, open_vectors
from tasks.embed.quality import Name, Quads, is_of_characters, name_vectors, quads_of, score_of
from tasks.embed.scatter import FEWEST_POINTS, draw_scatter, on_a_plane

TEMPLATE = Path(__file__).with_name("vectors.html.j2")
PICTURE = "vectors.png"


class ReportVectorsParams(StageParams):
    """Extent of the page."""

    pairs: int = Field(default=2000, ge=1, description="Largest number of pairs of each score.")
    points: int = Field(default=1000, ge=1, description="Largest number of points of the picture.")
    labels: int = Field(default=170, ge=0, description="Largest number of points with a label.")
    words: int = Field(default=12, ge=0, description="Number of frequent words whose neighbours are shown.")
    neighbours: int = Field(default=8, ge=1, description="Number of neighbours of each.")
    seed: int = 1
    """Seed of the drawn words and pairs, and of the picture."""


@stage(name="report_vectors", version=2, params=ReportVectorsParams, tables=("vector_scores",))
def report_vectors(inputs: Mapping[str, Artifact], params: ReportVectorsParams, out: Output) -> None:
    """Describe `inputs["vectors"]`, and compare them with all inputs whose names begin with `other`.

    `inputs["kg_entities"]` is a fused graph, and `inputs["synonyms"]` its thesaurus.
    """
    compared = {name: given for name, given in sorted(inputs.items()) if name.startswith("other")}
    opened = [_Opened(name_of(each), open_vectors(each)) for each in (inputs["vectors"], *compared.values())]
    names = _names(inputs["kg_entities"], inputs["synonyms"])
    scores, shared = _scores(opened, names, inputs["kg_entities"], params)
    with out.part() as part:
        part.write("vector_scores", scores)
        part.count("names", len(names))
        part.count("names_compared", shared)
    own = opened[0].vectors
    known = _by_frequency(own, names)
    picture = _picture(opened[0], known, names, params)
    if picture:
        out.add_bytes(PICTURE, picture)
    summary: dict[str, Any] = {
        "vectors": [
            {"name": each.name, "words": len(each.vectors), "dimensions": each.vectors.width} for each in opened
        ],
        "names": len(names),
        "names_known": len(known),
        "names_compared": shared,
        "points": min(params.points, len(known)) if picture else 0,
        "scores": scores,
        "neighbours": _neighbours(own, [names[place].surface for place in known], params),
        "picture": PICTURE if picture else "",
    }
    image = base64.b64encode(picture).decode() if picture else ""
    add_report(out, render(TEMPLATE, image=image, **summary), summary, scores)


@dataclass(frozen=True)
class _Opened:
    name: str
    vectors: WordVectors


def _names(graph: Artifact, synonyms: Artifact) -> list[Name]:
    """Return the names of a graph that mean one thing, in sorted order; those of one character are left out."""
    groups = dict(zip(*(synonyms.to_table()[column].to_pylist() for column in ("entity_id", "group_id")), strict=True))
    meanings: dict[str, list[tuple[str, str]]] = defaultdict(list)
    columns = ["entity_id", "name", "aliases", "type"]
    for row in graph.to_table("kg_entities").select(columns).to_pylist():
        for surface in {row["name"], *row["aliases"]}:
            meanings[surface].append((row["entity_id"], row["type"]))
    return [
        Name(surface, own[0][0], groups.get(own[0][0], own[0][0]), own[0][1])
        for surface, own in sorted(meanings.items())
        # 有 and 点 are symptoms in CMeKG, and would be its most frequent names.
        if len(own) == 1 and len(surface) > 1
    ]


def _scores(
    opened: Sequence[_Opened], names: Sequence[Name], graph: Artifact, params: ReportVectorsParams
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of `vector_scores`, and the number of names that all vectors know."""
    surfaces = [name.surface for name in names]
    of_names = [name_vectors(each.vectors, surfaces) for each in opened]
    shared = np.flatnonzero(np.all([~np.isnan(array[:, 0]) for array in of_names], axis=0))
    kept = [names[place] for place in shared.tolist()]
    table = graph.to_table("kg_triples")
    triples = zip(*(table[column].to_pylist() for column in ("head", "relation", "tail")), strict=True)
    measures: list[Quads] = quads_of(kept, triples, params.pairs, params.seed)
    return [
        {"vectors": each.name, **asdict(score_of(quads, array[shared], params.seed))}
        for quads in measures
        for each, array in zip(opened, of_names, strict=True)
    ], len(kept)


def _by_frequency(vectors: WordVectors, names: Sequence[Name]) -> list[int]:
    """Return the names that some vectors know, the most frequent first; of characters the rarest one decides."""
    ranks: list[tuple[int, int]] = []
    of_characters = is_of_characters(vectors)
    for place, name in enumerate(names):
        rows = vectors.rows("".join(name.surface.split()) if of_characters else [name.surface])
        if len(rows) and rows.min() >= 0:
            ranks.append((int(rows.max()), place))
    return [place for _, place in sorted(ranks)]


def _picture(opened: _Opened, known: Sequence[int], names: Sequence[Name], params: ReportVectorsParams) -> bytes | None:
    """Draw the most frequent names; None if there are too few."""
    shown = [names[place] for place in known[: params.points]]
    if len(shown) < FEWEST_POINTS:
        return None
    surfaces = [name.surface for name in shown]
    places = on_a_plane(name_vectors(opened.vectors, surfaces), params.seed)
    title = f"{opened.name}: {len(shown):,} frequent names of the graph"
    return draw_scatter(places, surfaces, [name.type for name in shown], params.labels, title)


def _neighbours(vectors: WordVectors, known: Sequence[str], params: ReportVectorsParams) -> list[dict[str, Any]]:
    """Return the nearest words of frequent names; of Chinese words that many names consist of where none is a word."""
    chosen = [name for name in known if name in vectors and len(name) > 1]
    if not chosen:
        # Of characters: 病 and 炎, not 的. The order of the rest stays that of the words.
        uses = Counter("".join(known))
        chinese = [word for word in vectors.words if all("\u4e00" <= one <= "\u9fff" for one in word)]
        chosen = sorted(chinese, key=lambda word: -uses[word])
    return [
        {"word": word, "nearest": [{"word": other, "cosine": cosine} for other, cosine in found]}
        for word in chosen[: params.words]
        if (found := vectors.nearest(word, params.neighbours))
    ]
