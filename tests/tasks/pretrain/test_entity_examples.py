"""Entity surfaces and examples: pieces as tokens, synonyms, and replacements equal to tokenising the replaced text."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra import schemas
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from models.objectives.embert.entity_rows import NOT_REPLACED, SAME, EntityRows, replaced
from models.objectives.embert.surfaces import EntitySurfaces
from models.tokenizer.corpus import CorpusTokenizer
from models.tokenizer.special_ids import CLS, SEP
from models.tokenizer.wordpiece import SPECIAL_TOKENS, build_tokenizer, save_tokenizer
from models.training.columns import SECOND, WORDS, Spans, read_rows
from tasks.pretrain.entity_examples import EntityExamplesParams, entity_examples, sequence_hashes
from tasks.pretrain.entity_surfaces import EntitySurfacesParams, entity_surfaces
from tests.support.graphs.linked import entities_artifact
from tests.support.text.stages import do

CHARACTERS = "再生障碍性贫血糖尿病酮酸中毒消渴高血压原发肺炎新型冠状患者有的,。abcdefi1²"
VOCABULARY = [*SPECIAL_TOKENS, *dict.fromkeys(CHARACTERS), "ace", "acei", "##i", "##b", "##c", "hbv", "h", "##v"]
TOKENIZER = CorpusTokenizer(build_tokenizer(VOCABULARY).to_str())

ENTITIES = [
    # surface, entity, type, pieces, how many of them are the adjective term
    ("再生障碍性贫血", "D1", "disease", ["再生", "障碍性", "贫血"], 2),
    ("糖尿病酮酸中毒", "D2", "disease", ["糖尿病", "酮酸", "中毒"], 2),
    ("糖尿病", "D3", "disease", ["糖尿病"], 0),
    ("消渴病", "D3", "disease", ["消渴病"], 0),
    ("消渴", "D3", "disease", ["消渴"], 0),
    ("高血压", "D4", "disease", ["高血压"], 0),
    ("原发性高血压病", "D4", "disease", ["原发性", "高血压病"], 1),
    ("ACEI", "M1", "drug", ["ACEI"], 0),
    ("ACE抑制", "M1", "drug", ["ACE", "抑制"], 1),  # 抑 and 制 are not in the vocabulary
    ("hbv肺炎", "D5", "disease", ["hbv", "肺炎"], 1),
    ("肺炎b", "D5", "disease", ["肺炎b"], 0),
    ("acei血压", "D6", "disease", ["ace", "i血压"], 1),  # a border inside a token
]
GROUPS = [
    ("D3", "糖尿病", "disease", False),
    ("D3", "消渴病", "disease", False),
    ("D3", "消渴", "disease", False),
    ("D4", "高血压", "disease", False),
    ("D4", "原发性高血压病", "disease", False),
    ("D5", "hbv肺炎", "disease", False),
    ("D5", "肺炎b", "disease", False),
    ("D1", "再生障碍性贫血", "disease", False),
    ("D1", "糖尿病酮酸中毒", "disease", True),  # may also mean something else: not used
    ("M1", "ACEI", "drug", False),
    ("M1", "ACE抑制", "drug", False),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("home"))


def vocabulary_of(store: ArtifactStore, folder: Path) -> Artifact:
    folder.mkdir(exist_ok=True)
    save_tokenizer(VOCABULARY, folder, 64)

    @stage(name="given_vocabulary", version=1, params=StageParams, tables=())
    def given(inputs: Any, params: StageParams, out: Output) -> None:
        out.add_file("tokenizer.json", folder / "tokenizer.json")

    return run(given, store, StageParams(), {}).artifact


def surfaces_artifact(store: ArtifactStore, folder: Path, unseen_share: float = 0.0, **changes: Any) -> Artifact:
    rows = [
        {
            "surface": surface,
            "entity_id": entity,
            "type": kind,
            "origin": "kg",
            "frequency": 3,
            "is_long": len(pieces) > 1,
            "pieces": pieces,
            "adjective": "".join(pieces[:adjective]),
            "atomic": "".join(pieces[adjective:]),
        }
        for surface, entity, kind, pieces, adjective in changes.get("entities", ENTITIES)
    ]
    groups = [
        {"group_id": group, "entity_id": group, "surface": surface, "type": kind, "ambiguous": ambiguous}
        for group, surface, kind, ambiguous in changes.get("groups", GROUPS)
    ]
    inputs = {"vocabulary": vocabulary_of(store, folder), "entities": entities_artifact(store, rows, "entities")}
    if changes.get("thesaurus", True):
        inputs["synonyms"] = entities_artifact(store, groups, "synonyms")
    return do(store, entity_surfaces, EntitySurfacesParams(unseen_share=unseen_share), **inputs)


@pytest.fixture(scope="module")
def made(store: ArtifactStore, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return surfaces_artifact(store, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def surfaces(made: Artifact) -> EntitySurfaces:
    return EntitySurfaces.open(Path(made.path))


@pytest.fixture(scope="module")
def numbers(made: Artifact) -> dict[str, int]:
    return {surface: number for number, surface in enumerate(made.to_table("entity_surfaces")["surface"].to_pylist())}


def test_pieces_become_ends_at_tokens(surfaces: EntitySurfaces, numbers: dict[str, int]) -> None:
    def ends(surface: str) -> list[int]:
        number = numbers[surface]
        return surfaces.is_end[surfaces.borders[number] : surfaces.borders[number + 1]].astype(int).tolist()

    assert ends("再生障碍性贫血") == [0, 1, 0, 0, 1, 0, 1]
    assert ends("糖尿病") == [0, 0, 1]
    assert ends("hbv肺炎") == [1, 0, 1]  # hbv is one token
    assert ends("acei血压") == [0, 0, 1], "acei is one token, in which a piece ends"
    assert surfaces.adjective[numbers["再生障碍性贫血"]] == 5
    assert surfaces.adjective[numbers["hbv肺炎"]] == 1
    assert surfaces.adjective[numbers["acei血压"]] == 0
    assert surfaces.pieces[numbers["糖尿病酮酸中毒"]] == 3
    assert "ACE抑制" not in numbers, "unknown tokens"


def test_groups_are_those_of_the_thesaurus_without_ambiguous_names(
    surfaces: EntitySurfaces, numbers: dict[str, int], made: Artifact
) -> None:
    names = {number: surface for surface, number in numbers.items()}
    found = {
        frozenset(names[int(m)] for m in surfaces.members[begin:end])
        for begin, end in itertools.pairwise(surfaces.group_borders.tolist())
    }
    assert found == {
        frozenset({"糖尿病", "消渴病", "消渴"}),
        frozenset({"高血压", "原发性高血压病"}),
        frozenset({"hbv肺炎", "肺炎b"}),
    }
    counters = made.manifest.counters
    assert (counters["surfaces_in"], counters["left_out"], counters["groups"], counters["replaceable"]) == (12, 1, 3, 7)
    assert surfaces.joins[VOCABULARY.index("ace")] and surfaces.joins[VOCABULARY.index("##i")]
    assert not surfaces.joins[VOCABULARY.index("病")] and not surfaces.joins[VOCABULARY.index("1")]


def test_spellings_with_the_same_tokens_are_one_surface(store: ArtifactStore, tmp_path: Path) -> None:
    rows = [
        ("糖尿病", "D3", "disease", ["糖尿病"], 0),
        ("ACEI", "M1", "drug", ["ACEI"], 0),
        ("acei", "M2", "drug", ["acei"], 0),
    ]
    made = surfaces_artifact(store, tmp_path, entities=rows)
    assert made.to_table("entity_surfaces")["surface"].to_pylist() == ["ACEI", "糖尿病"]


def test_without_a_thesaurus_nothing_is_replaceable(store: ArtifactStore, tmp_path: Path) -> None:
    made = surfaces_artifact(store, tmp_path, thesaurus=False)
    assert made.manifest.counters["replaceable"] == 0
    assert made.manifest.counters["long"] == 4


def test_vocabulary_of_another_text_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none of the 1 surfaces is made of tokens of the vocabulary"):
        surfaces_artifact(store, tmp_path, entities=[("龘龘", "X", "", ["龘龘"], 0)])


class PairRows(StageParams):
    rows: dict[str, list[dict[str, Any]]]


@stage(name="pairs", version=99, params=PairRows, tables=("pairs", "held_out_pairs"))
def given_pairs(inputs: Any, params: PairRows, out: Output) -> None:
    with out.part() as part:
        for table, rows in params.rows.items():
            part.write(table, rows)


def pair_row(first: str, second: str, mentions: list[tuple[int, int, str]]) -> dict[str, Any]:
    """A pair of texts; mentions are (sentence, first character, name)."""
    sides = [TOKENIZER.encode([text]) for text in (first, second)]
    ids = [CLS, *sides[0].ids.tolist(), SEP, *sides[1].ids.tolist(), SEP]
    begins = [1, len(sides[0].ids) + 2]
    spans = []
    for sentence, place, name in mentions:
        starts, ends = sides[sentence].starts.tolist(), sides[sentence].ends.tolist()
        spans.append((begins[sentence] + starts.index(place), begins[sentence] + ends.index(place + len(name)) + 1))
    kind = schemas.EXAMPLES.field("mentions").type.value_type
    rest = {one.name: "" if str(one.type) == "string" else 0 for one in kind if one.name not in ("start", "end")}
    return {
        "input_ids": ids,
        "word_starts": [place for place in range(1, len(ids) - 1) if place != begins[1] - 1],
        "mentions": [{"start": start, "end": end, **rest} for start, end in spans],
        "second": begins[1],
        "is_random": False,
        "doc_id": "d",
        "source": "article",
    }


def examples_of(
    store: ArtifactStore, made: Artifact, rows: list[dict[str, Any]], held_out: list[dict[str, Any]]
) -> Artifact:
    pairs = run(given_pairs, store, PairRows(rows={"pairs": rows, "held_out_pairs": held_out}), {}).artifact
    return do(store, entity_examples, EntityExamplesParams(), pairs=pairs, entity_surfaces=made)


def test_examples_name_surfaces_and_count_what_is_left_out(
    store: ArtifactStore, made: Artifact, numbers: dict[str, int]
) -> None:
    rows = [
        pair_row(
            "患者有糖尿病，消渴", "有再生障碍性贫血。", [(0, 3, "糖尿病"), (0, 7, "消渴"), (1, 1, "再生障碍性贫血")]
        ),
        pair_row("患者", "的", []),
        pair_row("患者有的", "的", [(0, 2, "有的")]),  # no surface
        pair_row("糖尿病酮酸中毒", "的", [(0, 0, "糖尿病酮酸中毒"), (0, 0, "糖尿病")]),  # overlapping
        pair_row("a高血压", "的", [(0, 1, "高血压")]),  # beside a letter
    ]
    artifact = examples_of(store, made, rows, rows[:1])
    found = [
        [(one["start"], one["end"], one["surface"]) for one in row["entities"]]
        for row in artifact.to_table("entity_examples").to_pylist()
    ]
    assert found[0] == [(4, 7, numbers["糖尿病"]), (8, 10, numbers["消渴"]), (12, 19, numbers["再生障碍性贫血"])]
    assert found[1:3] == [[], []]
    assert found[3] == [(1, 8, numbers["糖尿病酮酸中毒"])]
    counters = artifact.manifest.counters
    assert (counters["rows"], counters["rows_without_entity"]) == (6, 2)
    assert (counters["other_spellings"], counters["overlapping"], counters["beside_letters"]) == (1, 1, 1)
    assert artifact.rows("held_out_entity_examples") == 1


def test_entities_kept_for_evaluation_are_only_named_in_held_out_rows(store: ArtifactStore, tmp_path: Path) -> None:
    made = surfaces_artifact(store, tmp_path, unseen_share=0.5)
    table = made.to_table("entity_surfaces").to_pylist()
    unseen = {number for number, row in enumerate(table) if row["unseen"]}
    assert 0 < len(unseen) < len(table)
    by_group = {}
    for row in table:
        by_group.setdefault(row["group_id"] or row["surface"], set()).add(row["unseen"])
    assert all(len(flags) == 1 for flags in by_group.values()), "synonyms are kept together"
    names = [name for name in (row["surface"] for row in table) if name.isascii() is False and name != "acei血压"]
    rows = [pair_row(name, "的", [(0, 0, name)]) for name in names]
    artifact = examples_of(store, made, rows, rows)
    in_training, in_held_out = (
        {one["surface"] for row in artifact.to_table(table).to_pylist() for one in row["entities"]}
        for table in ("entity_examples", "held_out_entity_examples")
    )
    assert not in_training & unseen
    assert in_held_out == in_training | (in_held_out & unseen)
    assert in_held_out & unseen
    assert artifact.manifest.counters["kept_for_evaluation"] == len(in_held_out & unseen)


def test_unseen_entities_replace_each_other_alone(store: ArtifactStore, tmp_path: Path) -> None:
    names = ["".join(pair) for pair in itertools.product("糖尿病消渴", "贫血肺炎")]
    groups = [(f"G{number // 2}", name, "disease", False) for number, name in enumerate(names)]
    entities = [(name, group, kind, [name], 0) for group, name, kind, _ in groups]
    made = surfaces_artifact(store, tmp_path, unseen_share=0.5, entities=entities, groups=groups)
    surfaces = EntitySurfaces.open(Path(made.path))
    able = np.flatnonzero(surfaces.group >= 0)
    assert {True, False} == set(surfaces.unseen[able].tolist())
    for uniform in (0.0, 0.3, 0.6, 0.99):
        others = surfaces.other(able, np.full(len(able), uniform))
        assert (surfaces.unseen[others] == surfaces.unseen[able]).all()


def test_text_without_any_entity_is_refused(store: ArtifactStore, made: Artifact) -> None:
    rows = [pair_row("患者", "的", [])]
    with pytest.raises(UserError, match=r"no row mentions an entity .* Encode the text with the entity vocabulary"):
        examples_of(store, made, rows, rows)


NAMES = [surface for surface, *_ in ENTITIES if surface not in ("ACE抑制",)]
FILLING = st.text("患者有的，。abci1² \u0301Ⅱ½", max_size=4)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.tuples(FILLING, st.sampled_from(NAMES)), min_size=1, max_size=5),
    tail=FILLING,
    seed=st.integers(0, 1000),
)
def test_replacement_equals_tokenising_the_replaced_text(
    surfaces: EntitySurfaces, numbers: dict[str, int], pieces: list[tuple[str, str]], tail: str, seed: int
) -> None:
    """Whatever surrounds the names: letters, digits, marks that merge with a neighbour, white space."""
    text, spans = "", []
    for filling, name in pieces:
        spans.append((len(text + filling), name))
        text += filling + name
    text += tail
    encoded = TOKENIZER.encode([text])
    starts, ends = encoded.starts.tolist(), encoded.ends.tolist()
    ids = encoded.ids.tolist()
    entities, characters = [], []
    for place, name in spans:
        if place not in starts or place + len(name) not in ends or name not in numbers:
            continue
        first, behind = starts.index(place), len(ends) - ends[::-1].index(place + len(name))
        number = numbers[name]
        tokens = surfaces.ids[surfaces.borders[number] : surfaces.borders[number + 1]].tolist()
        if ids[first:behind] == tokens and (not entities or entities[-1][1] <= first + 1):
            entities.append((first + 1, behind + 1, number))
            characters.append((place, name))
    row = {
        "input_ids": [CLS, *ids, SEP, 10, SEP],
        "word_starts": np.arange(1, len(ids) + 1),
        "second": len(ids) + 2,
        "entities": entities,
    }
    laid = EntityRows.of([row], np.array([seed]), surfaces)
    found = replaced(laid, surfaces, seed=seed, step=seed, probability=0.8, longest=500)
    surface_of = {number: name for name, number in numbers.items()}
    new_text, end = "", 0
    for (place, name), label, number in zip(
        characters, found.labels.tolist(), found.entities[:, 3].tolist(), strict=True
    ):
        new = name if label == NOT_REPLACED else surface_of[number]
        assert (label == SAME) == (label != NOT_REPLACED and surfaces.group[number] == surfaces.group[numbers[name]])
        new_text += text[end:place] + new
        end = place + len(name)
    new_text += text[end:]
    assert found.ids[1 : found.seconds[0] - 1].tolist() == TOKENIZER.encode([new_text]).ids.tolist()
    for _, first, behind, number in found.entities.tolist():
        tokens = surfaces.ids[surfaces.borders[number] : surfaces.borders[number + 1]].tolist()
        assert found.ids[first:behind].tolist() == tokens
    assert found.ids[found.seconds[0]] == 10


def test_rows_are_read_as_batches_need_them(store: ArtifactStore, made: Artifact) -> None:
    rows = [pair_row("患者有糖尿病", "的", [(0, 3, "糖尿病")])]
    artifact = examples_of(store, made, rows, rows)
    (row,) = read_rows(artifact.to_table("entity_examples"), (*WORDS, SECOND, Spans("entities")))
    assert row.entities.tolist() == [[4, 7, row.entities[0, 2]]]
    assert row.second == 8


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=30))
def test_hashes_are_equal_for_equal_sequences_alone(sequences: list[list[int]]) -> None:
    borders = np.cumsum([0, *map(len, sequences)])
    hashes = sequence_hashes(np.concatenate(sequences), borders[:-1], borders[1:]).tolist()
    for (one, first), (other, second) in itertools.combinations(zip(sequences, hashes, strict=True), 2):
        assert (one == other) == (first == second)
