"""Stage `entities`: the entity vocabulary with its inner structure (EMBERT, appendix).

AutoPhrase's phrases and the names of the knowledge graph form the vocabulary (kg/entities/entity_vocabulary.py), the
corpus gives its frequencies, and long entities are cut into their parts (kg/entities/entity_segmentation.py). Beside
the table are two files. `dictionary.txt` has the short entities, one per line, as a user dictionary for jieba.
`cut_points.csv` has the cut points that AutoPhrase's segments of the entities suggest, with the answers used here: edit
its column `keep` and pass it as `cut_points`.

Time grows with the corpus and the vocabulary, memory with the vocabulary and one part of segments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import polars as pl
from pydantic import Field

from infra.artifacts import Artifact
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageInput, StageParams, stage
from kg.entities.cut_points import (
    CutPoint,
    CutPoints,
    count_cut_points,
    medicine_cut_points,
    read_cut_points,
    write_cut_points,
)
from kg.entities.entity_segmentation import Segmentation, segment_entities
from kg.entities.entity_vocabulary import Drop, Entity, Name, Phrase, build_vocabulary, is_long_candidate
from tasks.entities.counts import CountParams, Surfaces, entity_counts
from tasks.entities.segments import primitive_segments
from tasks.files.raw_input import RawInput
from tasks.phrases.segments import PhraseSegmentsParams
from tasks.phrases.stage import name_cutter

DICTIONARY, REVIEW = "dictionary.txt", "cut_points.csv"

ROWS_AT_ONCE = 20_000


class EntitiesParams(StageParams):
    """Criteria for entities, and options for cutting long ones."""

    min_quality: float = Field(default=0.5, ge=0, le=1, description="minimum quality of a phrase of several words")
    min_quality_word: float = Field(default=0.8, ge=0, le=1, description="minimum quality of a phrase of one word")
    max_length: int = Field(default=32, ge=1, description="maximum characters of a name; longer ones are sentences")
    max_single_share: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="share of single characters among the pieces above which a cut is considered wrong",
    )
    cut_points_from: Literal["segments", "words"] = Field(
        default="segments",
        description="what the review file counts: AutoPhrase's segments, or words of jieba and the phrases",
    )
    correction: Literal["phrases", "segments"] = Field(
        default="phrases",
        description="correction of a wrong cut: merge words into phrases, or use AutoPhrase's segments instead",
    )
    review_rows: int = Field(default=100, ge=1, description="number of characters in the review file of cut points")


@stage(name="entities", version=3, params=EntitiesParams, tables=("entities", "rejects"), heavy=True)
def entities(inputs: Mapping[str, Any], params: EntitiesParams, out: Output) -> None:
    """Make the vocabulary of `inputs["phrases"]` and `inputs["kg_entities"]`, either of which may be missing.

    Frequencies are those in `inputs["segments"]`, or 0 without it. `inputs["cut_points"]`, a raw input of one review
    file, replaces the table for medicine. Without phrases there are no segments of AutoPhrase to count or to use.

    Raises:
        UserError: there is neither a phrase nor a name, the review file is invalid, or the program is needed for its
            segments and fails.
    """
    decided = _decided(inputs.get("cut_points"))
    vocabulary, drops = build_vocabulary(
        _phrases(inputs.get("phrases")),
        _names(inputs.get("kg_entities")),
        min_quality=params.min_quality,
        min_quality_word=params.min_quality_word,
        max_length=params.max_length,
    )
    if not vocabulary:
        raise UserError(
            f"The entity vocabulary is empty: all {len(drops):,} phrases and names were dropped. Give a knowledge "
            "graph, use more text, or lower entities.min_quality."
        )
    surfaces = sorted({entity.surface for entity in vocabulary})
    frequencies = _frequencies(inputs.get("segments"), surfaces, out)
    qualities = {entity.surface: entity.quality for entity in vocabulary if entity.quality is not None}
    primitive = _primitive(inputs, surfaces, params, out.scratch)
    corrections = primitive if params.correction == "segments" else {}
    cut = segment_entities(surfaces, CutPoints.of(decided), qualities, params.max_single_share, corrections)
    with out.part() as part:
        _write_entities(part, vocabulary, frequencies, cut)
        _write_drops(part, drops)
    counted: Collection[Sequence[str]] = primitive.values()
    if params.cut_points_from == "words" or not counted:
        words = segment_entities(surfaces, CutPoints(), qualities, params.max_single_share)
        counted = [each.pieces for each in words.values()]
    review = count_cut_points(counted, decided, params.review_rows)
    short = [f"{surface}\n" for surface, segmentation in cut.items() if not segmentation.is_long]
    out.add_bytes(DICTIONARY, "".join(short).encode())
    out.add_bytes(REVIEW, write_cut_points(review))


def _primitive(
    inputs: Mapping[str, Any], surfaces: Sequence[str], params: EntitiesParams, scratch: str
) -> dict[str, tuple[str, ...]]:
    """Return AutoPhrase's segments of the surfaces; empty if they are not needed, or there are no phrases."""
    if "phrases" not in inputs or "segments" not in (params.cut_points_from, params.correction):
        return {}
    quality = PhraseSegmentsParams(threshold=params.min_quality, single_threshold=params.min_quality_word)
    return primitive_segments(
        surfaces, name_cutter(inputs.get("segments"), "words"), inputs["phrases"], quality, scratch
    )


def _decided(review: RawInput | None) -> Sequence[CutPoint]:
    if review is None:
        return medicine_cut_points()
    if len(review.files) != 1:
        names = ", ".join(file.name for file in review.files)
        raise UserError(f"Expected one review file of cut points, not {len(review.files)}: {names}. Give one.")
    (file,) = review.files
    return read_cut_points(file.read(), file.name)


def _phrases(artifact: Artifact | None) -> Iterator[Phrase]:
    if artifact is None:
        return
    rows = artifact.scan("phrases").select("surface", "quality", pl.col("words").list.len() == 1).collect()
    for row in rows.iter_rows():
        yield Phrase(*row)


def _names(artifact: Artifact | None) -> Iterator[Name]:
    """Yield all names and aliases of the graph."""
    if artifact is None:
        return
    columns = ["entity_id", "name", "aliases", "type"]
    for entity_id, name, aliases, kind in artifact.scan("kg_entities").select(columns).collect().iter_rows():
        for surface in (name, *aliases):
            yield Name(surface, entity_id, kind)


def _frequencies(segments: Artifact | None, surfaces: Sequence[str], out: Output) -> dict[str, int]:
    """Return the occurrences by surface, for surfaces that occur."""
    if segments is None:
        return {}
    given: dict[str, StageInput] = {"segments": segments, "surfaces": Surfaces.save(surfaces, out.scratch)}
    counted = out.run(entity_counts, CountParams(), given)
    totals = counted.scan("entity_counts").group_by("surface").agg(pl.col("count").sum())
    return dict(totals.collect(engine="streaming").iter_rows())


def _write_entities(
    part: PartWriter,
    vocabulary: Sequence[Entity],
    frequencies: Mapping[str, int],
    cut: Mapping[str, Segmentation],
) -> None:
    for first in range(0, len(vocabulary), ROWS_AT_ONCE):
        batch = vocabulary[first : first + ROWS_AT_ONCE]
        part.write(
            "entities", [_row(entity, frequencies.get(entity.surface, 0), cut[entity.surface]) for entity in batch]
        )
    for entity in vocabulary:
        part.count(f"origin_{entity.origin}")
    part.count("surfaces", len(cut))
    part.count("long_candidates", sum(map(is_long_candidate, cut)))
    part.count("long", sum(segmentation.is_long for segmentation in cut.values()))


def _row(entity: Entity, frequency: int, segmentation: Segmentation) -> dict[str, Any]:
    return {
        **entity._asdict(),
        "frequency": frequency,
        "is_long": segmentation.is_long,
        "pieces": list(segmentation.pieces),
        "atomic": segmentation.atomic,
        "adjective": segmentation.adjective,
    }


def _write_drops(part: PartWriter, drops: Sequence[Drop]) -> None:
    for drop in drops:
        part.reject(doc_id=drop.surface, source=drop.origin, reason=drop.reason, detail="no entity", text=drop.surface)
