"""Stage `attention`: does a synonym attract attention as the entity does that it replaces? (EMBERT, section 4.5)

For each sentence of `synonym_sentences` an encoder reads the sentence, the same with the synonym in the entity's place,
and the same with a random entity of the type. The attention of one layer between the context and the name is compared
(tasks/evaluate/attention/similarity.py). A synonym often shares characters with the entity, which alone makes it
similar, so figures for synonyms that share none are given too.

Sentences are left out and counted if a name is not made of whole, known tokens in its place, if the tokens around it
change with it, or if one of the three is longer than the encoder's positions.

The table `attention_similarities` has every sentence, `summary.json` the figures, `report.html` the figures and the
heat maps of Figure 3, which are also files (`heat_map_1.png`). Time grows with the tokens that are read, memory with a
batch and the table's rows.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.pages import add_report, render
from infra.stage import Output, stage
from tasks.downstream.features.alignment import Tokens
from tasks.evaluate.attention.attending import Attending, Ids
from tasks.evaluate.attention.heat_map import MOST_TOKENS, draw_heat_map
from tasks.evaluate.attention.params import HEAT_MAP_LAYER, SUMS_LAYER, AttentionParams, layer_of
from tasks.evaluate.attention.similarity import DIRECTIONS, cosine, figures, sums_of, within
from tasks.knowledge.link import entity_linker

TEMPLATE = Path(__file__).with_name("attention.html.j2")
NAMES = ("entity", "synonym", "random")
SENTENCES_AT_ONCE = 500

Row = Mapping[str, Any]


@stage(name="attention", version=2, params=AttentionParams, tables=("attention_similarities",), heavy=True)
def attention(inputs: Mapping[str, Any], params: AttentionParams, out: Output) -> None:
    """Analyse the attention of `inputs["model"]`, a `ModelFolder`.

    `inputs["sentences"]` are those of `synonym_sentences`. Entities in heat maps are those of `inputs["kg_entities"]`.
    `inputs["entity_surfaces"]`, if given, says which entities the model's training kept out.

    Raises:
        UserError: the folder is no encoder, it lacks a layer, a sentence to draw is too long, or no sentence fits.
    """
    model = Attending(inputs["model"].path)
    layers = _layers(model, params)
    drawn = [_Drawn.of(sentence, model, inputs["kg_entities"]) for sentence in params.sentences]
    unseen = _unseen(inputs.get("entity_surfaces"))
    rows = list(_compared(inputs["sentences"], model, layers, unseen, out))
    if not rows:
        raise UserError(
            f"{inputs['sentences'].path}: none of the {inputs['sentences'].rows():,} sentences can be compared with "
            f"the tokeniser of {inputs['model'].path}: names are not made of its tokens, or sentences have more than "
            f"{model.longest} tokens. Give a model of this language, or lower synonym_sentences.longest."
        )
    with out.part() as part:
        part.write("attention_similarities", rows)
    summary = summarise(rows, params.rounds, params.seed) | {
        "model": str(inputs["model"].path),
        "layers": model.layers,
        "layer": layers[0],
        "heat_map_layer": layers[1],
        "sentences_in": inputs["sentences"].rows(),
    }
    pictures = _pictures(drawn, model, layers[1])
    for picture in pictures:
        out.add_bytes(picture["file"], picture["png"])
    summary["heat_maps"] = [{name: one[name] for name in ("file", "sentence", "entities")} for one in pictures]
    images = {one["file"]: base64.b64encode(one["png"]).decode() for one in pictures}
    table = [{"direction and sentences": name, **one} for name, one in summary["groups"].items()]
    add_report(out, render(TEMPLATE, images=images, **summary), summary, table)


def check_attention(folder: Path, params: AttentionParams) -> None:
    """Raise `UserError` if a folder is no encoder, it lacks a layer, or a sentence to draw is too long for it."""
    model = Attending(folder)
    _layers(model, params)
    for sentence in params.sentences:
        _cut(sentence, model)


def _layers(model: Attending, params: AttentionParams) -> tuple[int, int]:
    """Return the layer that is compared, and the layer that heat maps show."""
    return (
        layer_of(params.layer, SUMS_LAYER, model.layers, "attention.layer"),
        layer_of(params.heat_map_layer, HEAT_MAP_LAYER, model.layers, "attention.heat_map_layer"),
    )


def summarise(rows: Sequence[Row], rounds: int, seed: int) -> dict[str, Any]:
    """Return figures for both directions, and for the attention within entities, by group of sentences."""
    chosen = {
        "all": list(rows),
        "synonym shares no character": [row for row in rows if not row["shares_characters"]],
        "synonym shares characters": [row for row in rows if row["shares_characters"]],
        "entity kept out of training": [row for row in rows if row["unseen"]],
        "entity in training": [row for row in rows if row["unseen"] is False],
    }
    groups = {
        f"{direction}: {name}": figures(some, direction, rounds, seed)
        for direction in DIRECTIONS
        for name, some in chosen.items()
        if some
    }
    inside = {
        "within": float(np.mean([row["within"] for row in rows])),
        "within_chance": float(np.mean([row["within_chance"] for row in rows])),
    }
    return {"groups": groups, **inside}


class _Placed(NamedTuple):
    """A sentence with a name in it, framed as a sequence."""

    ids: Ids
    first: int
    """First token of the name in the sequence."""
    behind: int
    """Token after its last."""


def _compared(
    sentences: Artifact, model: Attending, layers: tuple[int, int], unseen: Mapping[str, bool], out: Output
) -> Iterator[dict[str, Any]]:
    """Yield the row of each sentence that fits, and count the others by what is wrong with them."""
    asked = sentences.to_table("synonym_sentences").to_pylist()
    for begin in range(0, len(asked), SENTENCES_AT_ONCE):
        some = [(row, _placed(row, model, out)) for row in asked[begin : begin + SENTENCES_AT_ONCE]]
        fitting = [(row, placed) for row, placed in some if placed]
        sequences = [one.ids for _, placed in fitting for one in placed]
        sums, inside = {}, {}
        for number, maps_NLL in model.maps(sequences, layers):
            row, name = divmod(number, len(NAMES))
            one = fitting[row][1][name]
            sums[number] = sums_of(maps_NLL[0], one.first, one.behind)
            if name == 0:
                inside[row] = within(maps_NLL[1], one.first, one.behind)
        for place, (row, _) in enumerate(fitting):
            entity, synonym, other = (sums[len(NAMES) * place + name] for name in range(len(NAMES)))
            similar = {
                f"{direction}_{name}": cosine(getattr(entity, direction), getattr(one, direction))
                for direction in DIRECTIONS
                for name, one in (("synonym", synonym), ("random", other))
            }
            kept = ("sentence", "start", "end", "group_id", "type", *NAMES)
            yield (
                {name: row[name] for name in kept}
                | similar
                | {
                    "context": len(entity.received),
                    "within": inside[place][0],
                    "within_chance": inside[place][1],
                    "shares_characters": not set(row["entity"]).isdisjoint(row["synonym"]),
                    "unseen": unseen.get(row["group_id"]),
                }
            )


def _placed(row: Row, model: Attending, out: Output) -> list[_Placed] | None:
    """Return a row's sentence with each of its names, or None, counted, if these cannot be compared."""
    before, after = row["sentence"][: row["start"]], row["sentence"][row["end"] :]
    found, contexts = [], []
    for name, tokens in zip(NAMES, model.tokenizer.words([before + row[name] + after for name in NAMES]), strict=True):
        span = tokens.span(len(before), len(before) + len(row[name]))
        if span is None or model.tokenizer.unknown in tokens.ids[span[0] : span[1] + 1]:
            out.count("names_not_of_whole_tokens")
            return None
        ids = model.tokenizer.frame(tokens.ids)
        if len(ids[0]) > model.longest:
            out.count("too_long")
            return None
        found.append(_Placed(ids, span[0] + 1, span[1] + 2))
        contexts.append((tokens.ids[: span[0]].tolist(), tokens.ids[span[1] + 1 :].tolist()))
    if contexts[1:] != contexts[:-1]:  # 维生素 + B12 and 维生素 + 钴胺素: letters join those beside them
        out.count("other_tokens_around")
        return None
    return found


def _unseen(surfaces: Artifact | None) -> dict[str, bool]:
    """Return for each group of synonyms whether training named none of it."""
    if surfaces is None:
        return {}
    rows = surfaces.scan("entity_surfaces").filter(pl.col("group_id").is_not_null())
    return dict(rows.group_by("group_id").agg(pl.col("unseen").all()).collect().iter_rows())


def _cut(sentence: str, model: Attending) -> tuple[Tokens, Ids]:
    """Return the tokens of a sentence to draw, and its sequence. Raises `UserError` if it is too long."""
    (tokens,) = model.tokenizer.words([sentence])
    ids = model.tokenizer.frame(tokens.ids)
    most = min(MOST_TOKENS, model.longest)
    if len(ids[0]) > most:
        raise UserError(
            f"attention.sentences: {sentence[:20]!r}… has {len(ids[0])} tokens with [CLS] and [SEP], and a heat map "
            f"shows at most {most}. Shorten the sentence."
        )
    return tokens, ids


class _Drawn(NamedTuple):
    """A sentence to draw: its sequence, the text of each token, and the entities in it."""

    sentence: str
    ids: Ids
    labels: list[str]
    entities: list[tuple[int, int, str]]
    """First token, token after the last, and text."""

    @classmethod
    def of(cls, sentence: str, model: Attending, entities: Artifact) -> _Drawn:
        """Cut a sentence into tokens and find its entities. Raises `UserError` if it is too long to be drawn."""
        tokens, ids = _cut(sentence, model)
        labels = [
            "[CLS]",
            *(sentence[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)),
            "[SEP]",
        ]
        found = []
        for start, end, _ in entity_linker(entities, {}).link(sentence):
            span = tokens.span(start, end)
            if span is not None:
                found.append((span[0] + 1, span[1] + 2, sentence[start:end]))
        return cls(sentence, ids, labels, found)


def _pictures(drawn: Sequence[_Drawn], model: Attending, layer: int) -> list[dict[str, Any]]:
    """Return the heat map of each sentence, with the share of attention that stays within each entity."""
    found = []
    for number, (map_LL,) in sorted(model.maps([one.ids for one in drawn], [layer]), key=lambda item: item[0]):
        one = drawn[number]
        entities = []
        for first, behind, text in one.entities:
            inside, even = within(map_LL, first, behind)
            entities.append({"entity": text, "within": inside, "within_chance": even})
        title = f"Attention weights of layer {layer}, mean over heads"
        png = draw_heat_map(map_LL, one.labels, [entity[:2] for entity in one.entities], title)
        found.append({"file": f"heat_map_{number + 1}.png", "sentence": one.sentence, "entities": entities, "png": png})
    return found
