"""The stage `clean`: dropped documents and their reasons, profiles of sources, and counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from flows.recipes.pretraining import load_preset
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from tasks.clean.profile import adapted
from tasks.clean.stage import PROFILES, CleanParams, CleanProfile, clean
from tasks.documents import make_document
from tests.support.text.tables import documents_artifact

ARTICLE = "糖尿病是一组以高血糖为特征的代谢性疾病，应当控制饮食并坚持运动。"
LAB = "白细胞 5.6 10^9/L 3.5-9.5 ↑\n血红蛋白 120 g/L 115-150\n血小板 210 10^9/L 125-350\n血糖 9.8 mmol/L 3.9-6.1 ↑"
NURSING = "\n".join(f"{day}日 08:00\n体温36.5℃，脉搏80次/分，呼吸20次/分，血压120/80mmHg" for day in range(1, 15))
LEAFLET = "\n".join(
    f"【{part}】阿莫西林胶囊{text}。"
    for part, text in (
        ("药品名称", "，通用名称阿莫西林胶囊，英文名称Amoxicillin Capsules"),
        ("成份", "每粒含阿莫西林0.25g"),
        ("用法用量", "口服，成人一次0.5g，每6～8小时1次，一日剂量不超过4g"),
        ("不良反应", "可见恶心、呕吐、腹泻及假膜性肠炎等胃肠道反应，皮疹、药物热和哮喘等过敏反应"),
        ("禁忌", "青霉素过敏及青霉素皮肤试验阳性患者禁用"),
        ("注意事项", "用前必须做青霉素钠皮肤试验，阳性反应者禁用"),
    )
)
PRESCRIPTION = "处方：\n" + "\n".join(
    f"{herb}{grams}g" for herb in ["黄芪", "当归", "白芍", "川芎", "甘草", "茯苓"] for grams in (10, 15)
)
TALK = "".join(f"医生：{part}还疼吗\n患者：好的\n患者：谢谢\n" for part in "头颈肩背腰腹臂肘腕膝踝足胸眼耳")
JAPANESE = "糖尿病は、インスリンの作用不足によって高血糖が続く病気です。食事と運動を大切にしましょう。"
KOREAN = "당뇨병은 혈당이 높은 상태가 지속되는 대사 질환입니다. 糖尿病 환자는 식사와 운동이 중요합니다."
CANTONESE = "我嘅膝頭哥痛咗好耐，喺屋企行路都唔得，食咗藥冇乜用，佢哋話要照X光。"
TRADITIONAL = "糖尿病是一組以高血糖為特徵的代謝性疾病，應當控制飲食並堅持運動，預防併發症。"
ENGLISH = "Diabetes mellitus is a metabolic disease characterised by hyperglycaemia (糖尿病)."


class SourceParams(StageParams):
    rows: tuple[tuple[str, str], ...]


def _write(part: PartWriter, rows: Sequence[tuple[str, str]]) -> None:
    part.write("documents", [make_document(source, "上一篇：\n标题", text, {}) for source, text in rows])


@stage(name="documents", version=2, params=SourceParams, tables=("documents",))
def given_rows(inputs: Any, params: SourceParams, out: Output) -> None:
    out.map(_write, [params.rows])


def cleaned(store: ArtifactStore, params: CleanParams, *rows: tuple[str, str]) -> Artifact:
    documents = run(given_rows, store, SourceParams(rows=rows), {}).artifact
    return run(clean, store, params, {"documents": documents}).artifact


def reasons(artifact: Artifact) -> list[str]:
    return artifact.to_table("rejects").column("reason").to_pylist()


def test_dropped_documents_keep_their_reason(store: ArtifactStore) -> None:
    documents = documents_artifact(store, ["糖尿病患者应控制血糖。", "<p></p>", "only English words here", "短"])
    profile = CleanProfile(min_characters=5, min_han_share=0.5)
    artifact = run(clean, store, CleanParams(profile=profile), {"documents": documents}).artifact
    assert artifact.scan().collect()["text"].to_list() == ["糖尿病患者应控制血糖。"]
    rejects = {row["reason"]: row for row in artifact.to_table("rejects").to_pylist()}
    assert rejects.keys() == {"empty", "little_chinese", "too_short"}
    assert rejects["little_chinese"]["excerpt"] == "only English words here"
    assert rejects["empty"]["excerpt"] == "<p></p>"  # the text before cleaning, as nothing is left
    assert artifact.manifest.counters["documents_in"] == 4
    assert sum(v for k, v in artifact.manifest.counters.items() if k.startswith("rejected_")) == 3


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        (ARTICLE[:20] + "\ufffd\ufffd" + ARTICLE[20:], "garbled", "5.9% replacement characters; the maximum is 1.0%"),
        (ENGLISH, "little_chinese", "the minimum is 10%"),
        (JAPANESE, "language", "the script is that of ja; the profile keeps zh"),
        (KOREAN, "language", "ko"),
        (CANTONESE, "language", "yue"),
        ("电话 010-12345678 转分机 8001，8002，8003，8004", "symbols", "digits and symbols; the maximum is 70%"),
        ((ARTICLE + "\n") * 10, "repeated_lines", "88% is in repeated lines; the maximum is 50%"),
        (
            "治疗白癜风请到本院就诊，" * 5 + ARTICLE + "治疗白癜风请到本院就诊，" * 20,
            "repeated_phrase",
            "'疗白癜风请到本院就诊' is 75%",
        ),
        ("─" * 30, "little_chinese", "0% Chinese characters"),
        ("哈" * 300, "repeated_phrase", "'哈哈哈哈哈哈哈哈哈哈' is 100%"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_every_filter_reports_its_finding(store: ArtifactStore, text: str, reason: str, detail: str) -> None:
    artifact = cleaned(store, CleanParams(), ("article", text), ("article", ARTICLE))
    assert artifact.rows() == 1
    (row,) = artifact.to_table("rejects").to_pylist()
    assert row["reason"] == reason
    assert detail in row["detail"]
    assert artifact.manifest.counters[f"rejected_{reason}"] == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("emr", LAB),
        ("emr", NURSING),
        ("emr", "38.5 120/80"),
        ("encyclopedia", LEAFLET),
        ("article", PRESCRIPTION),
        ("dialogue", TALK),
        ("dialogue", "好的"),
        ("dialogue", "38.5度"),
        ("article", TRADITIONAL),
        ("article", "患者男，45岁，WBC 12.3×10^9/L，CRP 56 mg/L，诊断COPD伴AECOPD，予ICS/LABA治疗。"),
        ("article", "┌" + "─" * 90 + "┐\n│" + ARTICLE + ARTICLE + "│\n└" + "─" * 90 + "┘"),
        ("article", ARTICLE + "商品名の" + "コ"),
    ],
    ids=lambda value: value[:12],
)
def test_medical_text_is_kept_unchanged(store: ArtifactStore, source: str, text: str) -> None:
    artifact = cleaned(store, CleanParams(), (source, text))
    assert reasons(artifact) == []
    assert artifact.scan().collect()["text"].to_list() == [text.strip()]


@pytest.mark.parametrize(
    ("languages", "kept"),
    [
        (("zh",), [ARTICLE, TRADITIONAL]),
        (("zh-Hans",), [ARTICLE]),
        (("zh-Hant",), [TRADITIONAL]),
        (("zh", "yue", "ja", "ko"), [ARTICLE, TRADITIONAL, CANTONESE, JAPANESE, KOREAN]),
    ],
)
def test_languages_are_kept_by_name(store: ArtifactStore, languages: tuple[str, ...], kept: list[str]) -> None:
    """English is dropped by the share of Chinese, never by its language."""
    params = CleanParams(profile={"languages": languages, "min_han_share": 0})
    rows = [("article", text) for text in (ARTICLE, TRADITIONAL, CANTONESE, JAPANESE, KOREAN, ENGLISH)]
    texts = cleaned(store, params, *rows).scan().collect()["text"].to_list()
    assert texts == [*kept, ENGLISH] or set(texts) - {ENGLISH} == set(kept)


def test_source_may_have_a_profile_of_its_own(store: ArtifactStore) -> None:
    params = CleanParams(profile="smedbert", profiles={"dialogue": "ehealth", "emr": {"min_characters": 3}})
    artifact = cleaned(store, params, ("article", ARTICLE), ("dialogue", "好★"), ("emr", "发热头痛★"), ("emr", "热"))
    assert artifact.scan().collect()["text"].to_list() == ["好★", "发热头痛"]  # smedbert's other rules apply to records
    assert reasons(artifact) == ["too_short", "too_short"]


def test_rules_that_are_not_given_are_adapted_to_the_source() -> None:
    """Setting one rule of a source must not reset the others, as it once did in README's example."""
    preset = load_preset("ehealth-tiny", {"clean.profiles.textbook.min_characters": 9})
    assert preset.clean.rules("textbook") == adapted("ehealth", "textbook").model_copy(update={"min_characters": 9})
    records = CleanParams(profiles={"emr": {"simplify": True}}).rules("emr")
    assert records == adapted("ehealth", "emr").model_copy(update={"simplify": True})
    everywhere = CleanParams(profile={"simplify": True, "max_symbol_share": 0.2})
    assert everywhere.rules("emr") == records.model_copy(update={"max_symbol_share": 0.2})
    given = CleanParams(profiles={"emr": {"drop_boilerplate": True}, "textbook": {"join_lines": False}})
    assert given.rules("emr").drop_boilerplate and not given.rules("textbook").join_lines


def test_given_rules_alone_make_the_fingerprint_and_survive_a_round_trip() -> None:
    """A given value counts even if it equals the class's default: 0.1 is not the default for records."""
    few = CleanParams(profiles={"emr": {"simplify": True}})
    more = CleanParams(profiles={"emr": {"simplify": True, "min_han_share": 0.1}})
    assert clean.fingerprint(few, {}) != clean.fingerprint(more, {})
    for params in (few, more):
        again = CleanParams.model_validate(params.model_dump(mode="json"))
        assert again.rules("emr") == params.rules("emr") and clean.fingerprint(again, {}) == clean.fingerprint(
            params, {}
        )


def test_named_profile_is_adapted_to_the_source() -> None:
    assert CleanParams().rules("textbook").join_lines
    assert not CleanParams().rules("article").join_lines
    assert CleanParams(profile="smedbert").rules("textbook").min_characters == 256
    assert CleanParams(profile=PROFILES["ehealth"]).rules("textbook").join_lines


def test_smedbert_keeps_documents_from_256_characters_on() -> None:
    assert PROFILES["smedbert"].min_characters == 256


def test_removed_text_is_counted_by_rule(store: ArtifactStore) -> None:
    text = f"<b>{ARTICLE}</b>\u200b\n上一篇：没有了\n版权所有\n见 http://a.b/c ★。\n{ARTICLE}"
    artifact = cleaned(store, CleanParams(profiles={"article": {"strip_addresses": True}}),
                       ("article", text))  # fmt: skip
    counters = artifact.manifest.counters
    assert (counters["lines_boilerplate"], counters["characters_markup"], counters["characters_invisible"]) == (2, 7, 1)
    assert counters["characters_addresses"] == len("http://a.b/c")
    assert counters["characters_removed"] == len(text) - len(artifact.to_table().column("text")[0].as_py())
    (title,) = artifact.scan().collect()["title"].to_list()
    assert title == "上一篇： 标题"


def test_many_rows_stay_in_order(store: ArtifactStore) -> None:
    texts = [f"第{number}份病历，患者诉头痛。" for number in range(2_500)]
    artifact = run(clean, store, CleanParams(), {"documents": documents_artifact(store, texts)}).artifact
    assert artifact.scan().collect()["text"].to_list() == texts


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"profile": "ehelth"}, r"unknown profile 'ehelth'; known profiles: ehealth, smedbert, embert"),
        ({"profile": {"join_line": True}}, r"unknown key 'join_line'; did you mean 'join_lines'"),
        ({"profiles": {"emr": "none"}}, r"source 'emr': unknown profile 'none'"),
        ({"profiles": {"emr": {"min_characters": 0}}}, r"source 'emr': min_characters: .*greater than or equal to 1"),
        ({"profile": {"boilerplate": ["a"]}}, r"boilerplate: .*'a' is not a phrase"),
        ({"profile": {"languages": ["de"]}}, r"languages\.0"),
    ],
)
def test_mistakes_in_a_profile_are_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CleanParams(**params)


def test_preset_takes_profiles_and_names_wrong_keys() -> None:
    preset = load_preset("ehealth-tiny", {"clean.profiles.emr.min_characters": 9})
    assert preset.clean.rules("emr").min_characters == 9
    with pytest.raises(UserError, match=r"clean\.profiles.*unknown key 'join_line'; did you mean 'join_lines'"):
        load_preset("ehealth-tiny", {"clean.profiles.emr.join_line": True})


def test_simplify_is_refused_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValidationError, match="install it"):
        CleanParams(profile={"simplify": True})


@pytest.mark.parametrize(
    ("file", "column", "source", "share"),
    [
        ("toyhom_dialogue/im_sample.parquet", "answer", "dialogue", 0.0),
        ("chineseblue/cEHRNER.parquet", "text", "emr", 0.0),
        ("csl_scientific/kg.parquet", "text", "article", 0.002),
        ("tcm_ancient_books/sections.parquet", "text", "textbook", 0.001),
        ("huatuo_llama/llama_data.parquet", "output", "article", 0.002),
    ],
)
def test_few_real_documents_are_dropped(
    store: ArtifactStore, shared_data: object, file: str, column: str, source: str, share: float
) -> None:
    texts = pl.read_parquet(f"{shared_data}/{file}", n_rows=2_000)[column].to_list()
    artifact = cleaned(store, CleanParams(), *((source, text) for text in texts))
    assert artifact.rows("rejects") <= share * len(texts), artifact.to_table("rejects").to_pylist()
