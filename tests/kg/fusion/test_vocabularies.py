"""The tables of types and relations: their mapping, and errors in a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.errors import UserError
from kg.fusion.vocabularies import Relation, Role, Vocabulary

HEAD = "source,relation,name,role,functional,inverse\n"


def test_default_tables_are_idempotent() -> None:
    vocabulary = Vocabulary.read()
    assert vocabulary.relation_of("any", "别称") == Relation("SameAs", Role.ALIAS)
    assert vocabulary.relation_of("", "下位关系") == Relation("上位关系", inverse=True)
    assert vocabulary.relation_of("", "没有的关系") == Relation("没有的关系")
    assert (vocabulary.type_of("", "疾病"), vocabulary.type_of("", "Alias"), vocabulary.type_of("", "?")) == (
        "Disease",
        "",
        "?",
    )
    for relation in vocabulary.relations.values():
        assert vocabulary.relation_of("", relation.name) == relation._replace(inverse=False)


def test_rows_of_a_source_take_precedence(tmp_path: Path) -> None:
    path = tmp_path / "relations.csv"
    path.write_text(HEAD + ",a,b,,,\none,a,c,code,yes,\n", encoding="utf-8")
    vocabulary = Vocabulary.read(relations=path)
    assert vocabulary.relation_of("one", "a") == Relation("c", Role.CODE, functional=True)
    assert vocabulary.relation_of("two", "a") == Relation("b")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (",a,b,,,\n,b,c,,,\n", "a is mapped to b, whose own row"),
        (",a,b,alias,,\n,b,,code,,\n", "a is mapped to b, whose own row"),
        (",a,a,,,yes\n", "whose own row"),
        (",a,b,synonym,,\n", "row 2: 'synonym'"),
        (",a,b,,maybe,\n", "row 2: 'maybe' is not a flag"),
        (",a,b,,,\n,a,c,,,\n", "row 3: a of source '' occurs twice"),
        (",,b,,,\n", "row 2: the name in the source is empty"),
    ],
)
def test_error_in_a_table_names_the_row(tmp_path: Path, rows: str, said: str) -> None:
    path = tmp_path / "relations.csv"
    path.write_text(HEAD + rows, encoding="utf-8")
    with pytest.raises(UserError, match=said) as caught:
        Vocabulary.read(relations=path)
    assert str(path) in str(caught.value)


def test_chained_types_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "types.csv"
    path.write_text("source,type,name\n,a,b\n,b,c\n", encoding="utf-8")
    with pytest.raises(UserError, match="a is mapped to b, which is mapped to another"):
        Vocabulary.read(types=path)
    path.write_text("source,type\n,a\n", encoding="utf-8")
    with pytest.raises(UserError, match="lacks the columns"):
        Vocabulary.read(types=path)
