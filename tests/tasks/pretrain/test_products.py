"""Rows of products: pairs as token ids, values as arrays, and pairs that have no negative."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.objectives.electra_em_pap.pairs import Drawing, collate_pairs
from models.objectives.electra_em_pap.values import ProductValues
from models.tokenizer.special_ids import CLS, SEP
from models.training.columns import INPUT_IDS, SECOND, Numbers, Value
from models.training.reader import ExampleStream
from tasks.pretrain.products import ProductsParams, pair_ids, products
from tests.support.text.stages import do
from tests.support.text.tokenizers import VOCABULARY, save_ours
from tests.support.training.given_records import given_records


class GivenParams(StageParams):
    folder: str


@stage(name="vocabulary", version=1, params=GivenParams)
def given_vocabulary(inputs: Any, params: GivenParams, out: Output) -> None:
    out.add_folder(Path(params.folder))


ROWS = (
    ("二甲双胍", "适应症", ("糖尿病", "高血压"), False),
    ("感冒药", "适应症", ("发热", "头痛", "CT"), False),
    ("咳嗽药", "适应症", ("咳嗽", "ct", "糖尿"), True),
    ("感冒药", "用药", ("头痛",), False),
)
KEYS = {token: number for number, token in enumerate(VOCABULARY)}


def encoded(tmp_path: Path, rows: Any = ROWS, **params: Any) -> Artifact:
    store = ArtifactStore(tmp_path / "store")
    records = given_records(store, rows)
    vocabulary = do(store, given_vocabulary, GivenParams(folder=str(save_ours(tmp_path / "tokenizer"))))
    return do(store, products, ProductsParams(**params), records=records, vocabulary=vocabulary)


def ids(text: str) -> list[int]:
    return [KEYS.get(character, 1) for character in text]


def test_rows_are_title_and_attribute_with_the_numbers_of_their_values(tmp_path: Path) -> None:
    artifact = encoded(tmp_path)
    values = ProductValues.load(Path(artifact.path) / "values")
    first = next(row for row in artifact.to_table("products").to_pylist() if row["title"] == "二甲双胍")
    assert first["input_ids"] == [CLS, *ids("二甲双胍"), SEP, *ids("适应症"), SEP]
    assert first["input_ids"][first["second"] :] == [*ids("适应症"), SEP]
    assert sorted(values.tokens(value).tolist() for value in first["values"]) == sorted(
        [CLS, *ids(text), SEP] for text in ("糖尿病", "高血压")
    )


def test_negatives_come_from_titles_that_are_trained_on(tmp_path: Path) -> None:
    artifact = encoded(tmp_path)
    values = ProductValues.load(Path(artifact.path) / "values")
    texts = [values.tokens(value).tolist() for value in values.of(1)]
    trained = [[CLS, *ids(text), SEP] for text in ("糖尿病", "高血压", "发热", "头痛")] + [[CLS, KEYS["ct"], SEP]]
    assert sorted(texts) == sorted(trained)
    assert artifact.manifest.counters["values_read_alike"] == 1  # CT and ct


def test_pairs_without_a_negative_are_named(tmp_path: Path) -> None:
    artifact = encoded(tmp_path)
    (reject,) = artifact.to_table("rejects").to_pylist()
    assert (reject["doc_id"], reject["source"], reject["reason"]) == ("感冒药", "用药", "no_negative")
    assert "leave 用药 out of product_records.attributes" in reject["detail"]
    assert [row["title"] for row in artifact.to_table("held_out_products").to_pylist()] == ["咳嗽药"]


def test_an_attribute_that_all_titles_share_ends_the_stage_with_its_name(tmp_path: Path) -> None:
    rows = tuple((f"药{number}", "用药", ("头痛",), number > 2) for number in range(5))
    with pytest.raises(UserError, match=r"No pair .* is left to train on.*attributes: 用药"):
        encoded(tmp_path, rows)


def test_long_titles_are_cut_and_keep_the_name_of_the_attribute(tmp_path: Path) -> None:
    row, second = pair_ids(np.arange(10, 300), np.arange(300, 304), 64)
    assert len(row) == 64
    assert row.tolist() == [CLS, *range(10, 67), SEP, *range(300, 304), SEP]
    assert row[second:].tolist() == [*range(300, 304), SEP]
    long = encoded(tmp_path, (*ROWS, ("药" * 500, "适应症", ("咳" * 500, "头痛"), False)), max_length=64)
    counters = long.manifest.counters
    assert (counters["truncated_titles"], counters["truncated_values"]) == (1, 1)
    assert max(len(row["input_ids"]) for row in long.to_table("products").to_pylist()) == 64


def test_rows_are_read_and_collated_as_they_were_written(tmp_path: Path) -> None:
    artifact = encoded(tmp_path)
    columns = (INPUT_IDS, SECOND, Value("attribute"), Numbers("values"))
    stream = ExampleStream(artifact.parts("products"), 1, columns)
    values = ProductValues.load(Path(artifact.path) / "values")
    rows = stream.take(0, stream.rows)
    batch = collate_pairs(rows, values, seed=1, step=0, row_indices=None, drawing=Drawing(most_values=8, negatives=2))
    assert len(batch.pair_sequences) == 2 and batch.positives == 5
    assert int((~batch.is_positive).sum()) == 5  # three values are left for one pair, two for the other
