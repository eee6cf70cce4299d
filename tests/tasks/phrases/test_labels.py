"""Labels: lists in all supported encodings, the source of a name, and missing labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from infra.errors import UserError
from tasks.files.raw_input import RawInput
from tasks.phrases.autophrase import wiki_lists
from tasks.phrases.labels import read_labels
from tests.support.text.phrase_texts import list_of


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_lists_are_read_in_their_encoding(tmp_path: Path, encoding: str) -> None:
    names = ["糖尿病肾病", "  急性阑尾炎 ", "", "镕造病", "𠮷氏病"]
    labels = read_labels({"labels": list_of(tmp_path, names, encoding)})
    assert labels.kg == {"糖尿病肾病", "急性阑尾炎", "镕造病", "𠮷氏病"}


def test_list_in_an_unknown_encoding_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes("糖尿病\n".encode() + b"\xff\xff\xfe\n")
    with pytest.raises(UserError, match=r"names\.txt, line 2, is neither UTF-8 nor GB18030"):
        read_labels({"labels": RawInput(tmp_path / "names.txt")})


@dataclass
class Part:
    table: pa.Table

    def read(self, columns: list[str]) -> pa.Table:
        return self.table.select(columns)


class Entities:
    """Replaces the artifact of fused knowledge graphs."""

    def parts(self, table: str) -> list[Part]:
        assert table == "kg_entities"
        rows = {"entity_id": ["1", "2"], "name": ["糖尿病肾病", " "], "aliases": [["DKD", "糖肾"], []]}
        return [Part(pa.table(rows))]


def wiki(folder: Path) -> RawInput:
    lists = {"wiki_quality.txt": ["糖肾", "银河系"], "wiki_all.txt": ["银河系", "虎尾"], "stopwords.txt": ["即便"]}
    return RawInput([list_of(folder, names, "gb18030", name).path for name, names in lists.items()])


def test_labels_by_source_of_the_name(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "kg_entities": Entities(),
        "labels": list_of(tmp_path / "own", ["胃炎"]),
        "wiki": wiki(tmp_path / "wiki"),
    }
    labels = read_labels(given)
    assert labels.kg == {"糖尿病肾病", "DKD", "糖肾", "胃炎"}
    assert labels.wiki == {"银河系"}
    assert labels.known == {"虎尾"}
    assert {"即便", "的", "-"} <= labels.stop_words


def test_wiki_names_alone_suffice_and_no_names_do_not(tmp_path: Path) -> None:
    labels = read_labels({"wiki": wiki(tmp_path)})
    assert not labels.kg and labels.wiki == {"糖肾", "银河系"}
    with pytest.raises(UserError, match=r"there are none\. Give a knowledge graph or a list of names"):
        read_labels({})
    with pytest.raises(UserError, match="there are none"):
        read_labels({"labels": list_of(tmp_path / "own", ["", " "])})


def test_lists_of_the_package_are_read() -> None:
    given = wiki_lists()
    if given is None:
        pytest.skip("the package autophrase is not installed")
    labels = read_labels({"wiki": given})
    assert len(labels.wiki) > 40_000 and len(labels.known) > 5_000
    assert {"革命委员会", "诺姆·乔姆斯基"} <= labels.wiki
    assert "即便" in labels.stop_words  # the package's list is in GB18030
