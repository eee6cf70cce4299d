"""Every source gives the same triples for the same facts, and reports the rows it could not use."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from infra.errors import UserError
from kg.sources import cmekg, icd10
from kg.sources.delimited import Columns, read
from kg.sources.neo4j import read_neo4j
from kg.sources.products import read_products
from kg.sources.rdf import read_ntriples
from kg.sources.source_triples import TRIPLE_SCHEMA, SourceTriples, retyped
from tests.support.graphs.cmekg_pickles import GRAPH, written

Triple = tuple[str, str, str]
FACTS = [("糖尿病", "症状", "多饮"), ("糖尿病", "检查", "血糖，空腹"), ("胰岛素", "治疗", "糖尿病")]


def named(found: SourceTriples) -> list[Triple]:
    return found.triples.select("head", "relation", "tail").rows()


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_triples_come_from_every_format_under_any_column_names(tmp_path: Path) -> None:
    frame = pl.DataFrame(FACTS, schema=["主", "谓", "宾"], orient="row")
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    put(tmp_path / "a.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in frame.to_dicts()))
    put(tmp_path / "a.tsv", "".join("\t".join(fact) + "\n" for fact in FACTS))
    columns = Columns("主", "谓", "宾")
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        assert named(read(tmp_path / name, columns)) == FACTS
    assert named(read(tmp_path / "a.tsv", Columns("1", "2", "3", header=False))) == FACTS


def test_incomplete_rows_are_rejected_with_place_and_reason(tmp_path: Path) -> None:
    rows = [
        "head\trelation\ttail",
        "甲\tr\t乙",
        "\tr\t乙",
        "甲\tr",
        f"甲\t{'长' * 201}\t乙",
        "  \t \t乙",
        f"甲\t{'长' * 200}\t乙",
    ]
    found = read(put(tmp_path / "kg.tsv", "\n".join(rows)))
    assert len(named(found)) == 2
    assert [(row["place"], row["reason"], row["detail"]) for row in found.rejects.to_dicts()] == [
        ("kg.tsv#2", "missing_end", "without head"),
        ("kg.tsv#3", "missing_end", "without tail"),
        ("kg.tsv#4", "long_relation", "201 characters"),
        ("kg.tsv#5", "missing_end", "without head relation"),
    ]


def test_jsonl_lines_that_are_not_objects_are_rejected(tmp_path: Path) -> None:
    lines = [
        '{"head": "甲", "relation": "r", "tail": 5}',
        "{",
        "[1]",
        '{"head": "甲", "relation": "r", "tail": ["乙"]}',
    ]
    found = read(put(tmp_path / "kg.jsonl", "\n".join(lines)))
    assert named(found) == [("甲", "r", "5")]
    assert sorted(found.rejects.select("place", "reason").rows()) == [
        ("kg.jsonl#2", "unreadable_row"),
        ("kg.jsonl#3", "unreadable_row"),
        ("kg.jsonl#4", "missing_end"),
    ]


@pytest.mark.parametrize(("name", "comma"), [("kg.csv", ","), ("kg.tsv", "\t")])
def test_rows_with_too_many_fields_are_rejected(tmp_path: Path, name: str, comma: str) -> None:
    """Otherwise an unquoted comma would give another tail."""
    rows = [["head", "relation", "tail"], ["感冒", "症状", "发热", "咳嗽"], ["感冒", "症状"], ["感冒", "症状", "发热"]]
    found = read(put(tmp_path / name, "\ufeff\n" + "\r\n".join(map(comma.join, rows))))
    assert named(found) == [("感冒", "症状", "发热")]
    assert sorted(found.rejects.rows()) == [
        (f"{name}#1", "extra_fields", "more than 3 fields", "感冒 | 症状 | 发热 | 咳嗽"),
        (f"{name}#2", "missing_end", "without tail", "感冒 | 症状 | "),
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tsv", "a\tb\nc\td\n", "no column head, relation, tail"),
        ("a.xls", "", "triples must be in"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("none.tsv", None, "cannot be read as tsv"),
    ],
)
def test_error_for_an_unreadable_file_names_it(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        put(tmp_path / name, text)
    with pytest.raises(UserError, match=said) as caught:
        read(tmp_path / name)
    assert name in str(caught.value)


def test_types_come_from_columns_or_from_a_table(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "h,r,t,ht\n流感,症状,发热,Disease\n")
    assert read(path, Columns("h", "r", "t", "ht")).triples["head_type"].to_list() == ["Disease"]
    table = put(tmp_path / "types.csv", "relation,head_type,tail_type\n症状,Disease,Symptom\n")
    graph = read(path, Columns("h", "r", "t"), types=table).graph("own")
    assert dict(zip(graph.names, graph.types, strict=True)) == {"流感": "Disease", "发热": "Symptom"}
    twice = put(tmp_path / "twice.csv", "relation,head_type,tail_type\n症状,a,b\n症状,c,d\n")
    with pytest.raises(UserError, match=r"twice\.csv.*症状 occurs twice"):
        read(path, Columns("h", "r", "t"), types=twice)


def test_ntriples_are_read_with_labels_types_and_escapes(tmp_path: Path) -> None:
    kg, schema = "http://example.org/kg/", "http://www.w3.org/2000/01/rdf-schema#label"
    lines = [
        "# a comment",
        f'<{kg}d1> <{schema}> "Diabetes"@en .',
        f'<{kg}d1> <{schema}> "糖尿病"@zh-CN .',
        f"<{kg}d1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{kg}Disease> .",
        f"<{kg}d1> <{kg}r#症状> <{kg}%E5%A4%9A%E9%A5%AE> . # said so",
        f'<{kg}d1> <{kg}说明> "\\u7CD6 \\"甜\\"\\n"^^<http://www.w3.org/2001/XMLSchema#string> .',
        f"_:b1 <{kg}r#症状> <{kg}d1>.",
        "",
        f"<{kg}d1> <{kg}r> oops .",
    ]
    found = read_ntriples(put(tmp_path / "kg.nt", "\n".join(lines)))
    assert named(found) == [("糖尿病", "症状", "多饮"), ("糖尿病", "说明", '糖 "甜"'), ("_:b1", "症状", "糖尿病")]
    assert found.types == {"糖尿病": "Disease"}
    assert found.rejects.select("place", "reason").rows() == [("kg.nt#9", "unreadable_row")]


def test_neo4j_dumps_of_both_kinds_are_read(tmp_path: Path) -> None:
    files = [
        put(tmp_path / "drugs.csv", "id:ID(Drug),name:string,:LABEL\n1,胰岛素,Drug;Thing\n2,,Drug\n"),
        put(tmp_path / "edges.csv", ":START_ID(Drug),:END_ID(Disease),:TYPE\n1,1,治疗\n2,1,治疗\n9,1,治疗\n"),
        put(tmp_path / "diseases.csv", "id:ID(Disease),name,:LABEL\n1,糖尿病,Disease\n"),
    ]
    found = read_neo4j(files)
    assert found.triples.rows() == [("胰岛素", "治疗", "糖尿病", "Drug", "Disease")]
    assert found.rejects["place"].to_list() == ["edges.csv#2", "edges.csv#3"]
    apoc = put(
        tmp_path / "all.csv",
        '"_id","_labels","name","_start","_end","_type"\n"0",":Drug","胰岛素",,,\n"1",":Disease","糖尿病",,,\n'
        ',,,"0","1","治疗"\n',
    )
    assert read_neo4j([apoc]).triples.rows() == found.triples.rows()
    with pytest.raises(UserError, match="no relationships"):
        read_neo4j(files[:1])
    with pytest.raises(UserError, match=r"drugs\.csv has no property 'title'"):
        read_neo4j(files, name="title")


def test_products_give_one_triple_per_value(tmp_path: Path) -> None:
    path = put(tmp_path / "p.csv", "title,attribute,value\n阿司匹林片,适应症,头痛；发热\n阿司匹林片,规格,\n")
    assert named(read_products(path)) == [("阿司匹林片", "适应症", "头痛；发热")]
    found = read_products(path, separators="；、", title_type="Drug")
    assert named(found) == [("阿司匹林片", "适应症", "头痛"), ("阿司匹林片", "适应症", "发热")]
    assert set(found.triples["head_type"]) == {"Drug"} and found.rejects.height == 1


def test_table_takes_precedence_over_the_title_type(tmp_path: Path) -> None:
    path = put(
        tmp_path / "p.csv", "title,attribute,value\n血压计,测量,血压\n血压计,颜色,白\n血压计,重量,1kg\n滴眼液,颜色,白\n"
    )
    table = put(tmp_path / "types.csv", "relation,head_type,tail_type\n测量,Device,Sign\n")
    graph = read_products(path, types=table).graph("shop")
    types = dict(zip(graph.names, graph.types, strict=True))
    assert types == {"血压计": "Device", "滴眼液": "Drug", "血压": "Sign", "白": "", "1kg": ""}
    assert set(read_products(path, title_type="Goods").triples["head_type"]) == {"Goods"}


def test_table_takes_precedence_over_the_types_of_names(tmp_path: Path) -> None:
    triples = pl.DataFrame(
        [
            ("甲", "r", "乙", "A", "B"),
            ("甲", "s", "乙", "A", "B"),
            ("甲", "s", "丙", "A", "C"),
            ("甲", "s", "丁", "A", ""),
        ],
        schema=list(TRIPLE_SCHEMA),
        orient="row",
    )
    table = put(tmp_path / "types.csv", "relation,head_type,tail_type\nr,X,\nt,Y,Y\n")
    found = retyped(SourceTriples(triples, types={"甲": "A", "丁": "D"}), table)
    graph = found.graph("own")
    assert dict(zip(graph.names, graph.types, strict=True)) == {"甲": "X", "乙": "B", "丙": "C", "丁": "D"}


def test_cmekg_gets_types_from_its_table(tmp_path: Path) -> None:
    graph = cmekg.read_cmekg(written(tmp_path, GRAPH)).graph("cmekg")
    types = dict(zip(graph.names, graph.types, strict=True))
    assert (types["糖尿病"], types["多饮"], types["E14.9"]) == ("Disease", "Symptom", "ICDCode")
    assert graph.num_triples == len(set(cmekg.triples(GRAPH)))


CATALOGUE = """#
msgid ""
msgstr "Content-Type: text/plain; charset=utf-8\\n"

msgctxt "model:gnuhealth.pathology,name:W00"
msgid "Fall on ice"
msgstr "在冰上跌倒"

msgctxt "model:gnuhealth.pathology,name:W000"
msgid "home"
msgstr "家"

msgctxt "model:gnuhealth.pathology,name:D64"
msgid "Other anaemias"
msgstr ""
"其他"
"贫血"

msgctxt "model:gnuhealth.pathology,name:D649"
msgid "Anaemia, unspecified"
msgstr "未特指的贫血"

msgctxt "model:gnuhealth.pathology,name:X000"
msgid "home"
msgstr "家"

msgctxt "model:gnuhealth.pathology.category,name:cat3"
msgid "(D60-D64) Aplastic and other anaemias"
msgstr "(D60-D64) 贫血类"
"""

DISEASES = """<tryton><data><record model="gnuhealth.pathology" id="D64"><field name="name">x</field>
<field name="code">D64</field><field name="category" ref="cat3"></field></record></data></tryton>"""


def test_icd10_is_read_from_the_files_of_its_package(tmp_path: Path) -> None:
    found = icd10.read_icd10(put(tmp_path / "zh_CN.po", CATALOGUE), put(tmp_path / "diseases.xml", DISEASES))
    assert set(named(found)) == {
        ("在冰上跌倒", "has_code", "W00"),
        ("在冰上跌倒", "SameAs_en", "Fall on ice"),
        ("在冰上跌倒：家", "has_code", "W00.0"),
        ("在冰上跌倒：家", "SameAs_en", "home"),
        ("在冰上跌倒：家", "is_a", "在冰上跌倒"),
        ("其他贫血", "has_code", "D64"),
        ("其他贫血", "SameAs_en", "Other anaemias"),
        ("其他贫血", "is_a", "(D60-D64) 贫血类"),
        ("未特指的贫血", "has_code", "D64.9"),
        ("未特指的贫血", "SameAs_en", "Anaemia, unspecified"),
        ("未特指的贫血", "is_a", "其他贫血"),
        ("家", "has_code", "X00.0"),
        ("家", "SameAs_en", "home"),
    }
    assert found.aliases == {"未特指的贫血": ["贫血"]}
    assert found.types["未特指的贫血"] == "Disease" and found.types["家"] == "ExternalCause"
    assert found.types["D64.9"] == "ICDCode" and found.types["(D60-D64) 贫血类"] == "Block"


def test_icd10_gets_types_from_its_table(tmp_path: Path) -> None:
    table = put(tmp_path / "chapters.csv", "letter,type\nD,Blood\n")
    found = icd10.read_icd10(put(tmp_path / "zh_CN.po", CATALOGUE), chapters=table)
    assert (found.types["未特指的贫血"], found.types["家"], found.types["D64"]) == ("Blood", "", "ICDCode")
    with pytest.raises(UserError, match=r"types\.csv.*letter"):
        wrong = put(tmp_path / "types.csv", "relation,head_type,tail_type\nr,A,B\n")
        icd10.read_icd10(tmp_path / "zh_CN.po", chapters=wrong)


def test_icd10_errors_name_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"zh_CN\.po contains no codes"):
        icd10.read_icd10(put(tmp_path / "zh_CN.po", "hello"))
    with pytest.raises(UserError, match=r"bad\.xml cannot be read as XML"):
        icd10.read_icd10(put(tmp_path / "zh_CN.po", CATALOGUE), put(tmp_path / "bad.xml", "<a>"))
    monkeypatch.setattr(icd10, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(UserError, match=r"fetch_icd10\.sh"):
        icd10.locate()
