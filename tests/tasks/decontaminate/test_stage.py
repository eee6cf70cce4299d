"""Decontamination: overlaps with a benchmark are removed and nothing else, however the corpus is divided."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.decontaminate.stage import DecontaminateParams, decontaminate
from tasks.files.raw_input import RawInput
from tests.support.text.plain_runs import plain
from tests.support.text.stages import do, reasons_of, texts_of
from tests.support.text.tables import documents_artifact

QUESTION = "高血压患者早晨空腹服用氨氯地平五毫克以后仍然头晕怎么办"
ANSWER = "建议连续一周在家中自测血压并带着记录到心内科门诊复诊"


def benchmark(folder: Path, *rows: Any, name: str = "test.jsonl") -> RawInput:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / name).write_text("\n".join(lines), encoding="utf-8")
    return RawInput(folder)


def cleaned(store: ArtifactStore, sets: RawInput, *parts: list[str], **params: Any) -> Artifact:
    documents = documents_artifact(store, *parts)
    return do(store, decontaminate, DecontaminateParams(**params), documents=documents, benchmarks=sets)


def test_overlapping_sentence_is_removed_and_the_others_stay(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"id": "1", "label": "x"}, {"qa": [{"question": QUESTION}, ANSWER]})
    before = "甲状腺结节多数是良性的，定期复查超声就可以了。"
    text = f"{before}有人问：{QUESTION[:16]}？我们科室今天值班的医生会尽快回复大家提出的各种问题。"
    artifact = cleaned(store, sets, [text, "肝功能检查要空腹抽血。"])
    assert texts_of(artifact) == [
        before + "我们科室今天值班的医生会尽快回复大家提出的各种问题。",
        "肝功能检查要空腹抽血。",
    ]
    (found,) = artifact.to_table("contamination").to_pylist()
    (given_row, kept) = documents_artifact(store, [text, "肝功能检查要空腹抽血。"]).to_table().to_pylist()
    assert found == {
        "doc_id": given_row["doc_id"],
        "source": "article",
        "benchmark": "test.jsonl",
        "row": 2,
        "characters": 16,
        "excerpt": QUESTION[:16],
    }
    rows = artifact.to_table().to_pylist()
    assert rows[0]["doc_id"] != given_row["doc_id"]
    assert rows[0]["meta"] == given_row["meta"]
    assert rows[1] == kept
    counters = artifact.manifest.counters
    assert (counters["documents_in"], counters["documents_cut"], counters["characters_cut"]) == (2, 1, 21)
    assert (counters["documents_overlapping test.jsonl"], counters["overlaps test.jsonl"]) == (1, 1)
    assert (counters["benchmark_rows"], counters["benchmark_texts"]) == (2, 2)


def test_spelling_and_punctuation_do_not_hide_a_copy(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"text": "服用ＡＢＣ片5mg后，第Ⅲ天出现café-au-lait斑。"})
    artifact = cleaned(store, sets, ["服用 abc 片 ５ＭＧ\n后第iii天 出现CAFE\u0301AULAIT斑"], action="document")
    assert reasons_of(artifact) == ["contaminated"]


def test_run_one_character_shorter_is_not_an_overlap(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"text": QUESTION})
    texts = [f"甲{QUESTION[4:16]}乙", f"甲{QUESTION[4:17]}乙"]
    artifact = cleaned(store, sets, texts, action="document")
    assert texts_of(artifact) == texts[:1]
    (reject,) = artifact.to_table("rejects").to_pylist()
    assert (reject["reason"], reject["detail"]) == ("contaminated", "13 characters of test.jsonl row 1")


def test_document_is_dropped_where_too_little_would_be_left(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"question": QUESTION, "answer": ANSWER})
    text = f"{QUESTION}？{ANSWER}。祝您早日康复。"
    gone = cleaned(store, sets, [text])
    (reject,) = gone.to_table("rejects").to_pylist()
    assert reject["detail"] == (
        "27 characters of test.jsonl row 1 and some of 1 other texts; 11% would be left, and the minimum is 50%"
    )
    assert gone.rows("contamination") == 2
    assert texts_of(cleaned(store, sets, [text], min_share=0.1)) == ["祝您早日康复。"]
    assert reasons_of(cleaned(store, sets, [QUESTION], min_share=0.0)) == ["contaminated"]


def test_sentences_that_are_joined_do_not_overlap(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"text": QUESTION}, {"text": ANSWER})
    tail = "其余各项检查结果都在正常范围之内，不需要特别处理。" * 3
    text = f"{QUESTION[:8]}。{ANSWER}。{QUESTION[8:20]}。{tail}"
    assert texts_of(cleaned(store, sets, [text])) == [tail]


@pytest.mark.parametrize(("rows", "left"), [(20, 0), (21, 1)])
def test_run_in_many_benchmark_texts_is_a_template(store: ArtifactStore, tmp_path: Path, rows: int, left: int) -> None:
    template = "请根据下面的病历摘要选出最可能的诊断："
    sets = benchmark(tmp_path / "sets", *[{"text": f"{template}病例{number}号"} for number in range(rows)])
    artifact = cleaned(store, sets, [f"{template}他咳嗽"], action="document")
    assert artifact.rows() == left


def test_question_beside_many_answers_is_not_a_template(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", *[{"q": QUESTION, "a": f"候选答案{number}"} for number in range(100)])
    artifact = cleaned(store, sets, [QUESTION])
    assert artifact.rows() == 0
    assert artifact.to_table("contamination")["row"].to_pylist() == [1]


def test_texts_of_templates_alone_are_counted(store: ArtifactStore, tmp_path: Path) -> None:
    rows = [{"text": f"{QUESTION}{number}"} for number in "甲乙丙"]
    artifact = cleaned(store, benchmark(tmp_path / "sets", *rows), [QUESTION], max_benchmark_rows=2)
    # Each has one run of its own: its end.
    assert artifact.manifest.counters["benchmark_texts_ignored"] == 0
    rows = [{"text": QUESTION + "甲"}, {"text": QUESTION + "乙"}, {"text": QUESTION}]
    artifact = cleaned(store, benchmark(tmp_path / "other", *rows), [QUESTION], max_benchmark_rows=2)
    assert artifact.manifest.counters["benchmark_texts_ignored"] == 1
    artifact = cleaned(store, benchmark(tmp_path / "two", *rows[:2]), [QUESTION], max_benchmark_rows=1, overlap=27)
    assert artifact.rows() == 1  # no run is left in the index but the two ends


def test_an_index_without_any_run_finds_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    rows = [{"text": QUESTION[:13] + "甲"}, {"text": QUESTION[:13] + "乙"}]
    both = benchmark(tmp_path / "sets", {"text": QUESTION[:13]}, {"text": "，".join(QUESTION[:13])}, *rows)
    artifact = cleaned(store, both, [QUESTION], max_benchmark_rows=1)
    assert artifact.manifest.counters["benchmark_texts"] == 3
    assert texts_of(artifact) == [QUESTION]


def test_long_word_is_not_an_overlap_but_an_english_sentence_is(store: ArtifactStore, tmp_path: Path) -> None:
    sentence = "dexamethasone reduces mortality in hospitalised patients with severe pneumonia"
    sets = benchmark(tmp_path / "sets", {"text": sentence})
    texts = ["口服dexamethasone治疗", f"文献：{sentence}"]
    assert texts_of(cleaned(store, sets, texts, action="document")) == texts[:1]
    assert texts_of(cleaned(store, sets, texts, action="document", overlap_without_han=13)) == []


def test_all_kinds_of_files_are_read(store: ArtifactStore, tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    benchmark(folder, "短", "", "氨氯地平片说明书第一节适应症与用法用量", name="a.txt")
    benchmark(folder, "id,text", "1,布洛芬缓释胶囊说明书第二节不良反应和禁忌", name="b.csv")
    pl.DataFrame({"turns": [[{"said": "阿莫西林胶囊说明书第三节药物相互作用"}]]}).write_parquet(folder / "c.parquet")
    texts = ["氨氯地平片说明书第一节适应症", "布洛芬缓释胶囊说明书第二节不良反应", "阿莫西林胶囊说明书第三节药物"]
    artifact = cleaned(store, RawInput(folder), texts)
    places = [(row["benchmark"], row["row"]) for row in artifact.to_table("contamination").to_pylist()]
    assert places == [("a.txt", 3), ("b.csv", 2), ("c.parquet", 1)]


TAGGED = [f"{character}\t{'B-药物' if place == 11 else 'O'}" for place, character in enumerate(QUESTION)]


@pytest.mark.parametrize(
    ("name", "rows", "row"),
    [
        ("tags.txt", ["肝\tO", "功\tO", "", *TAGGED, "", "肾\tO"], 4),
        ("tags.tsv", ["字\t标", *TAGGED], 2),
        ("blank.txt", [line.replace("\t", " 动词 ") for line in TAGGED[:9]] + ["\tO", *TAGGED[9:]], 1),
        ("untagged.txt", ["肝", "", *QUESTION], 3),
        ("tokens.jsonl", [{"tokens": [*QUESTION[:9], QUESTION[9:11], *QUESTION[11:]]}], 1),
        ("no_header.tsv", [f"1\t{QUESTION}", "0\t肝功能检查要空腹抽血吗"], 1),
        ("open_quote.tsv", ["label\ttext", f'1\t"{QUESTION}', "0\t肝功能检查要空腹抽血吗"], 2),
        ("surplus.csv", ["label,text", f"1,{QUESTION[:20]},{QUESTION[20:]}"], 2),
    ],
)
def test_sets_are_found_in_every_form(
    store: ArtifactStore, tmp_path: Path, name: str, rows: list[Any], row: int
) -> None:
    sets = benchmark(tmp_path / "sets", {"text": ANSWER})
    benchmark(tmp_path / "sets", *rows, name=name)
    artifact = cleaned(store, sets, [QUESTION, "肝功能检查要空腹抽血。"])
    assert texts_of(artifact) == ["肝功能检查要空腹抽血。"]
    (found,) = artifact.to_table("contamination").to_pylist()
    assert (found["benchmark"], found["row"]) == (name, row)


def test_list_of_mentions_is_not_a_text(store: ArtifactStore, tmp_path: Path) -> None:
    mentions = ["发热", "咳嗽", "咳痰", "胸痛", "气促", "头痛", "乏力"] * 2
    sets = benchmark(tmp_path / "sets", {"text": ANSWER, "mentions": mentions})
    assert texts_of(cleaned(store, sets, ["".join(mentions)])) == ["".join(mentions)]


def test_unreadable_files_and_rows_are_counted_and_skipped(
    store: ArtifactStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd = '{"n": 5, "t": null, "s": "\\ud800"}'
    sets = benchmark(tmp_path / "sets", {"text": QUESTION}, "{broken", "[1, 2]", odd)
    benchmark(tmp_path / "sets", "说明", name="README.md")
    (tmp_path / "sets" / "bad.parquet").write_bytes(b"no parquet")
    artifact = cleaned(store, sets, [QUESTION])
    counters = artifact.manifest.counters
    assert (counters["benchmark_rows"], counters["benchmark_rows_unreadable"]) == (2, 3)
    assert counters["benchmark_files_not_read"] == 1
    assert artifact.rows() == 0
    assert "README.md" in caplog.text
    assert "bad.parquet" in caplog.text


def test_benchmarks_without_a_text_are_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"text": "十二个字的文本不够长呀，。！"}, "{broken")
    with pytest.raises(UserError, match=r"No text .* has 13 letters and digits or more \(1 rows .*1 are damaged"):
        cleaned(store, sets, ["甲"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="contains no files"):
        cleaned(store, RawInput(tmp_path / "empty"), ["甲"])
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.txt").write_bytes(("甲乙丙丁".encode() + b"\xff\xfe") * 4_000)
    with pytest.raises(UserError, match=r"a\.txt in the benchmarks is not in utf-8"):
        cleaned(store, RawInput(tmp_path / "mixed"), ["甲"])


@pytest.mark.parametrize("size", [1, 7, 40])
def test_parts_and_order_do_not_matter(store: ArtifactStore, tmp_path: Path, size: int) -> None:
    drawn = random.Random(size)
    held = ["".join(drawn.choices("甲乙丙丁戊己庚辛", k=30)) for _ in range(20)]
    sets = benchmark(tmp_path / "sets", *[{"text": text} for text in held])
    texts = []
    for _ in range(40):
        sentences = ["".join(drawn.choices("子丑寅卯辰巳", k=20)) for _ in range(4)]
        if drawn.random() < 0.5:
            sentences[drawn.randrange(4)] = drawn.choice(held)[5:25]
        texts.append("。".join(sentences))
    whole = cleaned(store, sets, texts)
    assert whole.rows("contamination") > 5
    shuffled = drawn.sample(texts, len(texts))
    cut = cleaned(store, sets, *[shuffled[first : first + size] for first in range(0, len(texts), size)])
    for table in ("documents", "contamination", "rejects"):
        # `row` in the meta of a document is its place in the part.
        one, other = (
            artifact.scan(table).collect().drop("meta", strict=False).sort("doc_id").rows() for artifact in (whole, cut)
        )
        assert one == other


def test_the_index_travels_through_any_storage(tmp_path: Path) -> None:
    sets = benchmark(tmp_path / "sets", {"text": QUESTION})
    artifact = cleaned(ArtifactStore(f"memory://{tmp_path.name}"), sets, [QUESTION, "肝功能检查要空腹抽血。"])
    assert texts_of(artifact) == ["肝功能检查要空腹抽血。"]


def test_all_planted_rows_of_a_real_set_are_found(store: ArtifactStore, tmp_path: Path, shared_data: Path) -> None:
    source = shared_data / "chineseblue" / "cMedQA.parquet"
    if not source.is_file():
        pytest.skip("ChineseBLUE is not on this machine")
    sets = pl.read_parquet(source)
    folder = tmp_path / "sets"
    folder.mkdir()
    sets.write_parquet(folder / "cMedQA.parquet")
    filler = pl.read_parquet(shared_data / "tcm_ancient_books" / "sections.parquet", n_rows=300)["text"].to_list()
    planted = random.Random(1).sample(sorted({*sets["text_a"], *sets["text_b"]}), 400)
    texts = [
        f"{filler[number % 300][:200]}\n{text}\n{filler[-number % 300][:200]}" for number, text in enumerate(planted)
    ]
    documents = documents_artifact(store, texts[:200], texts[200:], filler)
    params = DecontaminateParams()
    artifact = run(decontaminate, store, params, {"documents": documents, "benchmarks": RawInput(folder)}).artifact
    found = set(artifact.to_table("contamination")["doc_id"].to_pylist())
    ids = documents.to_table()["doc_id"].to_pylist()
    long_enough = [len(plain(text)) >= 13 for text in planted]
    assert sum(long_enough) > 350
    assert [doc_id in found for doc_id, is_long in zip(ids, long_enough, strict=False) if is_long].count(False) == 0
    kept = "\n".join(plain(text) for text in texts_of(artifact))
    assert not [text for text, is_long in zip(planted, long_enough, strict=True) if is_long and plain(text) in kept]
