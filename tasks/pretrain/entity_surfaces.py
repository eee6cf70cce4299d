"""Stage `entity_surfaces`: the entity vocabulary and its thesaurus as tokens, for EMBERT's batches.

Every surface is cut by the tokeniser once; its sub-entities become tokens at which one ends. A replacement in a batch
is then a splice of tokens (models/objectives/embert/entity_rows.py), equal to replacing the name in the text and
cutting it anew. Labels of segmentation are the finest pieces of the vocabulary.

A surface may replace another, and be replaced, if the thesaurus has it in exactly one group and does not call it
ambiguous. A share of the groups, and of the surfaces without one, is kept for evaluation: training examples do not name
them, so that figures about them are of entities never trained on.

Time and memory grow with the vocabulary: about 10 µs and 600 bytes for each surface.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import Field
from tokenizers import Tokenizer

from infra.arrays.ranges import ranges
from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.objectives.embert.surfaces import EntitySurfaces, replacement_arrays
from models.tokenizer.character_table import DEPENDS, CharacterTable
from models.tokenizer.corpus import EncodedTexts, corpus_tokenizer
from models.tokenizer.special_ids import NUM_SPECIAL, UNK
from tasks.documents import share_of


class EntitySurfacesParams(StageParams):
    """Entities that are kept for evaluation."""

    unseen_share: float = Field(
        default=0.1, ge=0, lt=1, description="share of groups of synonyms that no training example names"
    )
    seed: int = 42
    """Seed of the choice of entities that training does not see."""


@stage(name="entity_surfaces", version=1, params=EntitySurfacesParams, tables=("entity_surfaces",), heavy=True)
def entity_surfaces(inputs: Mapping[str, Artifact], params: EntitySurfacesParams, out: Output) -> None:
    """Cut the surfaces of `inputs["entities"]` with the tokeniser of `inputs["vocabulary"]`.

    `inputs["synonyms"]`, of the stage `thesaurus`, says which replace each other; without it none do. Beside the table
    are the files of `EntitySurfaces`.

    Raises:
        UserError: no surface is made of whole, known tokens.
    """
    tokenizer_json = inputs["vocabulary"].read_file("tokenizer.json").decode()
    names = _names(inputs["entities"])
    tokenizer = corpus_tokenizer(tokenizer_json)
    encoded = tokenizer.encode(names["surface"].to_list())
    fit = _fit(names, encoded)
    if not fit.any():
        raise UserError(
            f"{inputs['entities'].path}: none of the {len(names):,} surfaces is made of tokens of the vocabulary. Use "
            "the vocabulary of the same text, or a larger one."
        )
    forms = _Forms.of(names, encoded, np.flatnonzero(fit))
    groups = _groups(forms, inputs.get("synonyms"))
    unseen = _unseen(groups, params)
    numbered, types = _numbered(groups["group_id"]), _numbered(groups["type"])
    pools = np.where(numbered >= 0, 2 * types + unseen, -1)  # a pool is a type, seen or unseen
    arrays = replacement_arrays(numbered, pools, forms.frequencies)
    made = EntitySurfaces(
        ids=forms.ids,
        borders=forms.borders,
        is_end=forms.is_end,
        pieces=forms.pieces,
        adjective=forms.adjective,
        unseen=unseen,
        joins=_joins(tokenizer_json),
        commonest=forms.commonest(),
        **arrays,
    )
    with tempfile.TemporaryDirectory(prefix="yiwen-surfaces-") as folder:
        made.save(Path(folder))
        out.add_folder(Path(folder))
    with out.part() as part:
        table = groups.select("surface", "group_id").with_columns(
            replaceable=pl.Series(made.group >= 0), unseen=pl.Series(unseen), pieces=pl.Series(made.pieces)
        )
        part.write("entity_surfaces", table.to_arrow())
        part.count("surfaces_in", len(names))
        part.count("left_out", int((~fit).sum()))
        part.count("surfaces", len(made))
        part.count("long", int((made.pieces > 1).sum()))
        part.count("two_terms", int((made.adjective > 0).sum()))
        part.count("replaceable", int((made.group >= 0).sum()))
        part.count("groups", len(made.group_borders) - 1)
        part.count("unseen", int(unseen.sum()))


class _Forms:
    """Distinct sequences of tokens, each with the first of its surfaces."""

    def __init__(self, names: pl.DataFrame, encoded: EncodedTexts, chosen: np.ndarray, number: np.ndarray) -> None:
        """`chosen`: rows of the first surface of each form; `number`: form of each row, -1 for none."""
        begins, ends = encoded.borders[chosen], encoded.borders[chosen + 1]
        tokens = ranges(begins, ends)
        self.names = names
        self.number = number
        self.chosen = chosen
        self.ids = encoded.ids[tokens].astype(np.uint32)
        self.borders = np.concatenate([[0], np.cumsum(ends - begins)])
        of_form = np.repeat(np.arange(len(chosen)), ends - begins)
        self.is_end = _sub_entity_ends(names["pieces"].gather(chosen), encoded.ends[tokens], of_form)
        self.pieces = np.add.reduceat(self.is_end.astype(np.int64), self.borders[:-1]).astype(np.uint16)
        self.adjective = _adjective_tokens(names, chosen, encoded, tokens, of_form)
        self.frequencies = np.bincount(
            number[number >= 0], weights=names["frequency"].to_numpy()[number >= 0], minlength=len(chosen)
        )

    @classmethod
    def of(cls, names: pl.DataFrame, encoded: EncodedTexts, rows: np.ndarray) -> _Forms:
        """Number the forms of some rows in the order of their first surfaces."""
        number = np.full(len(names), -1, dtype=np.int64)
        numbers: dict[bytes, int] = {}
        chosen: list[int] = []
        for row in rows.tolist():
            key = encoded.ids[encoded.borders[row] : encoded.borders[row + 1]].tobytes()
            number[row] = numbers.setdefault(key, len(numbers))
            if number[row] == len(chosen):
                chosen.append(row)
        return cls(names, encoded, np.array(chosen), number)

    def commonest(self) -> np.ndarray:
        """Most frequent token of atomic terms and of adjective ones, weighted by the surfaces' frequencies."""
        lengths = np.diff(self.borders)
        place = np.arange(len(self.ids)) - np.repeat(self.borders[:-1], lengths)
        split = np.repeat(self.adjective.astype(np.int64), lengths)
        weight = np.repeat(self.frequencies, lengths)
        sides = (split > 0) & (place >= split), place < split
        found = [np.bincount(self.ids[side], weights=weight[side], minlength=1) for side in sides]
        return np.array([int(one.argmax()) for one in found])


def _names(entities: Artifact) -> pl.DataFrame:
    """Distinct surfaces, sorted; a surface that several entities share has the same pieces in all rows."""
    columns = ["surface", "frequency", "pieces", "adjective"]
    return entities.scan("entities").select(columns).unique("surface").sort("surface").collect()


def _fit(names: pl.DataFrame, encoded: EncodedTexts) -> np.ndarray:
    """bool (rows,): surfaces that begin and end with a token, all of them known."""
    counts = np.diff(encoded.borders)
    fit = counts > 0
    first, last = encoded.borders[:-1][fit], encoded.borders[1:][fit] - 1
    lengths = names["surface"].str.len_chars().to_numpy()
    fit[fit] = (encoded.starts[first] == 0) & (encoded.ends[last] == lengths[fit])
    fit[np.repeat(np.arange(len(counts)), counts)[encoded.ids == UNK]] = False
    return fit


def _sub_entity_ends(pieces: pl.Series, ends: np.ndarray, of_form: np.ndarray) -> np.ndarray:
    """bool: tokens that end where a piece does. `ends` are the tokens' ends in characters."""
    lengths = pieces.list.eval(pl.element().str.len_chars()).list
    flat = lengths.eval(pl.element().cum_sum()).explode().to_numpy().astype(np.int64)
    of_piece = np.repeat(np.arange(len(pieces)), pieces.list.len().to_numpy())
    width = int(flat.max(initial=0)) + 1
    return np.isin(of_form * width + ends, of_piece * width + flat)


def _adjective_tokens(
    names: pl.DataFrame, chosen: np.ndarray, encoded: EncodedTexts, tokens: np.ndarray, of_form: np.ndarray
) -> np.ndarray:
    """uint16: tokens of the adjective term of each form; 0 where there are not two terms of whole tokens."""
    border = names["adjective"].gather(chosen).str.len_chars().to_numpy().astype(np.int64)
    starts, ends = encoded.starts[tokens], encoded.ends[tokens]
    before, cut = starts < border[of_form], (starts < border[of_form]) & (ends > border[of_form])
    count = np.bincount(of_form, weights=before, minlength=len(chosen)).astype(np.int64)
    whole = np.bincount(of_form, weights=cut, minlength=len(chosen)) == 0
    return np.where(whole & (count < np.bincount(of_form, minlength=len(chosen))), count, 0).astype(np.uint16)


def _groups(forms: _Forms, synonyms: Artifact | None) -> pl.DataFrame:
    """The first surface of each form, and its group and type: null where it has no group or may mean several things."""
    first = pl.DataFrame({"surface": forms.names["surface"].gather(forms.chosen)}).with_row_index("form")
    if synonyms is None:
        return first.with_columns(group_id=pl.lit(None, pl.String), type=pl.lit(None, pl.String))
    numbered = pl.DataFrame({"surface": forms.names["surface"], "form": forms.number.astype(np.int64)})
    rows = synonyms.scan("synonyms").select("surface", "group_id", "type", "ambiguous").collect()
    found = rows.join(numbered.filter(pl.col("form") >= 0), on="surface").group_by("form")
    clear = found.agg(
        pl.col("group_id", "type").sort_by("group_id").first(),
        several=pl.col("group_id").n_unique() > 1,
        ambiguous=pl.col("ambiguous").any(),
    ).filter(~pl.col("several") & ~pl.col("ambiguous"))
    return first.with_columns(pl.col("form").cast(pl.Int64)).join(clear, on="form", how="left").sort("form")


def _unseen(groups: pl.DataFrame, params: EntitySurfacesParams) -> np.ndarray:
    """bool: forms kept for evaluation, whole groups at a time."""
    keys = groups.select(pl.coalesce("group_id", "surface")).to_series().to_list()
    return np.array([share_of(key, "unseen", params.seed) < params.unseen_share for key in keys])


def _numbered(values: pl.Series) -> np.ndarray:
    """int64: number of each distinct value, in their order; -1 for null."""
    distinct = values.drop_nulls().unique().sort()
    return values.replace_strict(distinct, range(len(distinct)), default=-1, return_dtype=pl.Int64).to_numpy()


def _joins(tokenizer_json: str) -> np.ndarray:
    """bool (V,): tokens that a neighbour in the text may merge with or change; see `EntitySurfaces.joins`."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    table = CharacterTable(tokenizer)
    single = {token: number for token, number in vocabulary.items() if len(token) == 1}
    codes = np.array([ord(token) for token in single], dtype=np.int64)
    table.learn(codes)
    alone = (table.form[codes] != DEPENDS) & (table.token[codes] >= 0)
    joins = np.ones(max(vocabulary.values()) + 1, dtype=bool)
    joins[np.fromiter(single.values(), np.int64, len(single))] = ~alone
    joins[:NUM_SPECIAL] = False
    joins[UNK] = True  # nobody knows what it stands for
    return joins
