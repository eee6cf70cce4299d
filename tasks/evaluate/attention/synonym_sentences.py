"""Stage `synonym_sentences`: sentences with an entity, a synonym of it and a random entity of its type (EMBERT, 4.5).

Entities are found as everywhere: the longest names of the graph, from left to right. So 糖尿病 in 糖尿病肾病 is left
alone. An entity is taken if the thesaurus has its name in exactly one group and does not call it ambiguous, and so is
the synonym that may replace it. The random entity is a name that no other entity has, as long as the synonym or, where
there is none, of the nearest length: a longer name would attract more attention by its length alone. Neither of the two
occurs in the sentence. All three have a Chinese character: most aliases of CMeKG are English, and an encoder of Chinese
text would show how it treats strange letters, not what it knows of entities.

The choice depends on the text, the graph and the seed, not on a model, so several models can be compared on the same
sentences. Time grows with the corpus, as that of `link`; memory with a part of segments and the names of the graph.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from pydantic import Field

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, ArtifactStore, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.documents import share_of
from tasks.knowledge.link import CHARACTERS_AT_ONCE, entity_linker
from tasks.segment.sentences import ends_in

HAN = r"\p{Han}"
"""Pattern of a Chinese character: found in `X线检查`, and not in `typhus`."""

Row = dict[str, Any]


class SynonymOccurrencesParams(StageParams):
    """Sentences that are considered."""

    shortest: int = Field(default=10, ge=1, description="fewest characters of a sentence")
    longest: int = Field(default=120, ge=1, description="most characters of a sentence")
    per_group: int = Field(
        default=4, ge=1, description="most sentences of a group of synonyms, so that frequent ones do not outweigh rare"
    )
    seed: int = 42
    """Seed of the choice of sentences."""


class SynonymSentencesParams(SynonymOccurrencesParams):
    """Sentences that are considered, and how many are taken."""

    sentences: int = Field(default=1_000, ge=1, description="most sentences in all, a fixed random choice")


@stage(name="synonym_sentences", version=2, params=SynonymSentencesParams, tables=("synonym_sentences",), heavy=True)
def synonym_sentences(inputs: Mapping[str, Artifact], params: SynonymSentencesParams, out: Output) -> None:
    """Choose sentences of `inputs["segments"]` by names of `inputs["kg_entities"]` and groups of `inputs["synonyms"]`.

    Raises:
        UserError: no sentence has an entity with a synonym and with another entity of its type.
    """
    considered = SynonymOccurrencesParams(**params.model_dump(exclude={"sentences"}))
    found = out.run(synonym_occurrences, considered, inputs)
    order = ["draw", "segment_id", "start"]
    of_groups = found.scan("synonym_occurrences").sort(order).group_by("group_id", maintain_order=True)
    chosen = of_groups.head(params.per_group).sort(order).collect()
    choice = _Choice(inputs["kg_entities"], inputs["synonyms"], params.seed)
    rows: list[Row] = []
    for row in chosen.iter_rows(named=True):
        made = choice.complete(row)
        out.count("without_other_entity", made is None)
        rows += [] if made is None else [made]
        if len(rows) == params.sentences:
            break
    if not rows:
        raise UserError(
            f"{inputs['segments'].path}: no sentence of {params.shortest} to {params.longest} characters has an entity "
            f"with a synonym in {inputs['synonyms'].path} and another entity of its type to compare. Give text that "
            "names such entities, a graph with aliases, or raise synonym_sentences.longest."
        )
    with out.part() as part:
        part.write("synonym_sentences", rows)
        part.count("groups", len({row["group_id"] for row in rows}))


@stage(
    name="synonym_occurrences", version=2, params=SynonymOccurrencesParams, tables=("synonym_occurrences",), heavy=True
)
def synonym_occurrences(inputs: Mapping[str, Artifact], params: SynonymOccurrencesParams, out: Output) -> None:
    """Find sentences with an entity that has a synonym; inputs as for `synonym_sentences`.

    Each part of segments gives at most `per_group` of a group: those with the smallest draws.
    """
    entities, synonyms = inputs["kg_entities"], inputs["synonyms"]
    out.map(occurrences_part, inputs["segments"].parts("segments"), params, entities, synonyms)


def occurrences_part(
    part: PartWriter, segments: Part, params: SynonymOccurrencesParams, entities: Artifact, synonyms: Artifact
) -> None:
    """Find the sentences of one part."""
    linker = entity_linker(entities, {})
    groups = _groups((synonyms.store_root, synonyms.stage, synonyms.fingerprint)).by_surface
    found: dict[str, list[Row]] = defaultdict(list)
    rows = segments.read(columns=["segment_id", "text"])
    texts = zip(rows["segment_id"].to_pylist(), rows["text"].to_pylist(), strict=True)
    for batch in batches_of(texts, CHARACTERS_AT_ONCE, length=lambda row: len(row[1])):
        mentions = linker.link_many([text for _, text in batch])
        places = zip(mentions.texts.tolist(), mentions.starts.tolist(), mentions.ends.tolist(), strict=True)
        for number, start, end in places:
            segment_id, text = batch[number]
            group = groups.get(text[start:end])
            if group is None:
                continue
            part.count("occurrences")
            first, last = _sentence(text, start, end)
            if not params.shortest <= last - first <= params.longest:
                continue
            draw = share_of(f"{segment_id} {start}", "synonym sentence", params.seed)
            found[group].append(
                {
                    "segment_id": segment_id,
                    "sentence": text[first:last],
                    "start": start - first,
                    "end": end - first,
                    "group_id": group,
                    "draw": draw,
                }
            )
    for group in sorted(found):
        drawn = sorted(found[group], key=lambda row: (row["draw"], row["segment_id"], row["start"]))
        part.write("synonym_occurrences", drawn[: params.per_group])


def _sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the borders of the sentence around a mention, without white space at its ends."""
    ends = _ends(text)
    place = bisect_right(ends, start)
    first = ends[place - 1] if place else 0
    place = bisect_right(ends, end - 1)
    last = ends[place] if place < len(ends) else len(text)
    first += len(text[first:last]) - len(text[first:last].lstrip())
    return first, first + len(text[first:last].rstrip())


@functools.lru_cache(maxsize=1)
def _ends(text: str) -> list[int]:
    return ends_in(text)


class _Groups:
    """Groups of Chinese surfaces that mean one thing each and nothing else."""

    def __init__(self, synonyms: pl.DataFrame) -> None:
        clear = synonyms.group_by("surface").agg(
            pl.col("group_id", "type").first(), clear=~pl.col("ambiguous").any() & (pl.col("group_id").n_unique() == 1)
        )
        kept = (
            clear.filter("clear", pl.col("surface").str.contains(HAN))
            .filter(pl.len().over("group_id") > 1)
            .sort("surface")
        )
        self.by_surface: dict[str, str] = dict(kept.select("surface", "group_id").iter_rows())
        self.types: dict[str, str] = dict(kept.select("group_id", "type").iter_rows())
        self.surfaces: dict[str, list[str]] = defaultdict(list)
        for surface, group in self.by_surface.items():
            self.surfaces[group].append(surface)


@functools.lru_cache(maxsize=1)
def _groups(address: tuple[str, str, str]) -> _Groups:
    root, name, fingerprint = address
    artifact = ArtifactStore(root).get(name, fingerprint)
    assert artifact is not None, "the caller holds it"
    return _Groups(artifact.scan("synonyms").collect())


class _Choice:
    """The draw of a synonym and of a random entity for a sentence."""

    def __init__(self, entities: Artifact, synonyms: Artifact, seed: int) -> None:
        self._seed = seed
        self._groups = _groups((synonyms.store_root, synonyms.stage, synonyms.fingerprint))
        self._all = synonyms.scan("synonyms").select("group_id", "surface").collect()
        self._own = {group: set(names) for group, names in self._all.group_by("group_id").agg("surface").iter_rows()}
        self._pools = _pools(entities.scan("kg_entities").select("name", "aliases", "type").collect())

    def complete(self, row: Mapping[str, Any]) -> Row | None:
        """Return the row with a synonym and a random entity; None if the sentence leaves no choice."""
        sentence, group = row["sentence"], row["group_id"]
        entity = sentence[row["start"] : row["end"]]
        key = f"{row['segment_id']} {row['start']} {entity}"
        kind = self._groups.types[group]
        others = [name for name in self._groups.surfaces[group] if name not in sentence]
        for synonym in _from(others, share_of(key, "synonym", self._seed)):
            pool = self._pools.get(kind, {})
            for length in sorted(pool, key=lambda size: (abs(size - len(synonym)), size)):
                for other in _from(pool[length], share_of(key, "random entity", self._seed)):
                    if other not in self._own[group] and other not in sentence:
                        return {**row, "entity": entity, "synonym": synonym, "random": other, "type": kind}
        return None


def _from(names: Sequence[str], share: float) -> Iterator[str]:
    """Yield names in their order, beginning at a place that `share` says."""
    first = int(share * len(names))
    yield from names[first:]
    yield from names[:first]


def _pools(entities: pl.DataFrame) -> dict[str, dict[int, list[str]]]:
    """Return the Chinese names that one entity alone has, sorted, by its type and by their length in characters."""
    named = entities.select(pl.concat_list(pl.concat_list("name"), "aliases").list.unique().alias("surface"), "type")
    once = named.explode("surface").filter(
        pl.len().over("surface") == 1, pl.col("surface").str.len_chars() > 1, pl.col("surface").str.contains(HAN)
    )
    pools: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for surface, kind in once.sort("surface").iter_rows():
        pools[kind][len(surface)].append(surface)
    return pools
