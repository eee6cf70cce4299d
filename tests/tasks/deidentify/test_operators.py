"""What becomes of identifiers: masks, hashes, surrogates, ciphertexts, other dates; keys that stay secret."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from tasks.deidentify.forms.dates import cut_to_month, cut_to_year, read_date, shifted
from tasks.deidentify.forms.identifier import Profile
from tasks.deidentify.forms.numbers import is_card_number, is_identity_number
from tasks.deidentify.operators import KEY_VARIABLE, Key, Operator, restore, shift_of
from tasks.deidentify.plan import Plan, make_plan
from tasks.deidentify.search.find import find_identifiers
from tasks.deidentify.stage import DeidentifyParams, deidentify_documents
from tasks.deidentify.surrogates import SURNAMES, surrogate
from tasks.deidentify.treatment import deidentify
from tasks.documents import make_document

SECRET = "0123456789abcdef" * 4
NOTE = "患者王伟，2023年4月11日入院，2023-04-18手术，电话138-1234-5678，王医生查房，王伟好转。"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, SECRET)


def plan(operator: Operator = "placeholder", profile: Profile = "hipaa", **operators: Operator) -> Plan:
    return make_plan(profile, operator=operator, operators=operators)


def test_mask_keeps_length_and_signs() -> None:
    treated, _ = deidentify("电话138-1234-5678，患者王伟，", plan("mask", "minimal"))
    assert treated == "电话***-****-****，患者**，"


def test_hash_is_a_keyed_digest_of_the_identifier_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = plan("hash", "minimal")
    one, other = (deidentify(said, wanted)[0] for said in ("电话138-1234-5678", "手机13812345678"))
    assert one[2:] == other[2:]
    own = hmac.new(SECRET.encode(), b"yiwen deidentify hash", hashlib.sha256).digest()
    digest = hmac.new(own, b"6:mobile11:13812345678", hashlib.sha256).hexdigest()
    assert one == f"电话〔手机号#{digest[:12]}〕"
    monkeypatch.setenv(KEY_VARIABLE, SECRET[::-1])
    assert deidentify("电话138-1234-5678", plan("hash", "minimal"))[0] != one


def test_encryption_is_undone_with_the_same_key_alone() -> None:
    treated, counts = deidentify(NOTE, plan("encrypt"))
    assert "王伟" not in treated and "138" not in treated
    assert deidentify(NOTE, plan("encrypt"))[0] == treated
    assert restore(treated, Key(SECRET.encode())) == (NOTE, sum(counts.values()))
    with pytest.raises(UserError, match="another key"):
        restore(treated, Key(SECRET[::-1].encode()))
    name = re.search("〔姓名=[^〕]*〕", treated)
    assert name is not None
    with pytest.raises(UserError, match="of the kind address cannot be opened"):  # bound to its kind
        restore(name[0].replace("姓名", "地址"), Key(SECRET.encode()))


def test_surrogates_have_the_form_of_the_identifier_and_agree_in_a_document() -> None:
    treated, _ = deidentify(NOTE, plan("surrogate"), "a")
    found = re.fullmatch(
        "患者(..)，(.*)入院，(.*)手术，电话(1[3-9]\\d-\\d{4}-\\d{4})，(.)医生查房，(..)好转。", treated
    )
    assert found is not None
    assert found[1] == found[6] != "王伟"
    assert found[5] == found[1][0]  # the surname has one surrogate
    assert found[4] != "138-1234-5678"
    assert deidentify(NOTE, plan("surrogate"), "a")[0] == treated
    assert deidentify(NOTE, plan("surrogate"), "b")[0] != treated


@pytest.mark.parametrize("document", [str(number) for number in range(20)])
def test_a_part_of_a_name_has_that_part_of_its_surrogate(document: str) -> None:
    """欧阳 may become one character, a given name keeps its length, and no character stays as it was."""
    said = "患者欧阳晓丽，女，3岁。晓丽由爷爷陪同，欧阳晓丽好转。"
    treated, _ = deidentify(said, plan("surrogate"), document)
    found = re.fullmatch("患者(.)(..)，女，3岁。(..)由爷爷陪同，(.)(..)好转。", treated)
    assert found is not None
    assert (found[1], found[2]) == (found[4], found[5])
    assert found[3] == found[2]
    assert found[2][0] != "晓" and found[2][1] != "丽"


def digest(*said: str) -> bytes:
    return hashlib.sha256("|".join(said).encode()).digest()


@pytest.mark.parametrize("number", ["0871-63512288", "（0755）2673 4410", "021 6351 2288", "0851-8567 1203转8021"])
def test_a_landline_keeps_its_area(number: str) -> None:
    drawn = surrogate("landline", number, digest)
    assert drawn is not None and len(drawn) == len(number) and drawn != number
    area = re.match("（?0[0-9]{2,3}）?[ -]?", number)
    assert area is not None and drawn.startswith(area[0]) and drawn[area.end() :] != number[area.end() :]


def test_a_traditional_surname_has_one_surrogate() -> None:
    old, new = (surrogate("name", name, digest) for name in ("賴冠霖", "赖冠霖"))
    assert old == new and old is not None and old[0] in SURNAMES


def test_no_character_of_a_name_is_its_own_surrogate() -> None:
    for number in range(500):
        drawn = surrogate(
            "name", "王晓丽", lambda *said, key=str(number): hashlib.sha256("|".join((key, *said)).encode()).digest()
        )
        assert drawn is not None and len(drawn) == 3
        assert all(new != old for new, old in zip(drawn, "王晓丽", strict=True))


@pytest.mark.parametrize(
    "said",
    [
        "身份证号：110101199003074514",
        "卡号：6228480122334455666",
        "手机13812345678",
        "邮箱zhang@mail.cn",
        "邮箱zhang艾特mail点cn",
        "邮箱zhang at mail点cn",
        "邮箱zhang(at)mail(dot)cn",
        "QQ：847261593",
    ],
)
def test_surrogate_is_another_identifier_of_the_kind(said: str) -> None:
    (kind,) = {one.type for one in find_identifiers(said)}
    treated, _ = deidentify(said, plan("surrogate", "minimal"))
    drawn = treated[len(said) - len(said.lstrip("身份证号：卡手机邮箱Q")) :]
    assert treated != said
    assert [one.type for one in find_identifiers(treated)] == [kind]
    if kind == "email":
        assert treated.endswith("@example.com") and len(drawn.partition("@")[0]) == len("zhang")
    if kind == "identity":
        assert is_identity_number(drawn)
    if kind == "bank_card":
        assert is_card_number(drawn)


@given(
    days=st.integers(-365, 365).filter(bool),
    first=st.dates(datetime.date(1930, 1, 1), datetime.date(2030, 1, 1)),
    later=st.integers(0, 400),
    form=st.sampled_from(
        ["{0.year}年{0.month}月{0.day}日", "{0:%Y-%m-%d}", "{0.year}/{0.month}/{0.day}", "{0:%Y%m%d}"]
    ),
)
def test_shifted_dates_keep_their_interval_and_form(days: int, first: datetime.date, later: int, form: str) -> None:
    second = first + datetime.timedelta(days=later)
    for date in (first, second):
        assert shifted(form.format(date), days) == form.format(date + datetime.timedelta(days=days))


def test_shift_moves_all_dates_of_a_document_alike_and_is_never_none() -> None:
    treated, _ = deidentify(NOTE, plan(date="shift"), "a")
    days = shift_of(Key(SECRET.encode()), "a")
    assert days and -365 <= days <= 365
    moved = datetime.date(2023, 4, 11) + datetime.timedelta(days=days)
    assert f"{moved.year}年{moved.month}月{moved.day}日入院" in treated
    assert len({shift_of(Key(SECRET.encode()), str(scope)) for scope in range(200)}) > 100
    assert 0 not in {shift_of(Key(SECRET.encode()), str(scope)) for scope in range(5_000)}


@pytest.mark.parametrize(
    ("written", "moved", "month", "year"),
    [
        ("2023年4月11日", "2023年5月2日", "2023年4月", "2023年"),
        ("2023-04-11", "2023-05-02", "2023年4月", "2023年"),
        ("12/20/1961", "01/10/1962", "1961年12月", "1961年"),
        ("2018-11", "2018-12", "2018年11月", "2018年"),
        ("12月30日", "1月20日", "12月", None),
        ("23.6.9", "23.6.30", "2023年6月", "2023年"),
        ("4/28", "5/19", "4月", None),
        ("三月十一日", None, None, None),
        ("5月上旬", None, "5月", None),
        ("2019年国庆", None, None, None),
        ("二〇二三年三月八日", None, None, None),
    ],
)
def test_date_is_shifted_or_cut(written: str, moved: str | None, month: str | None, year: str | None) -> None:
    assert shifted(written, 21) == moved
    assert cut_to_month(written) == month
    assert cut_to_year(written) == year
    assert (read_date(written) is None) == (moved is None)


def test_a_date_that_cannot_be_cut_becomes_its_placeholder() -> None:
    assert deidentify("于2023年4月11日、12月3日入院", plan(date="month"))[0] == "于2023年4月、12月入院"
    assert deidentify("于2023年4月11日、12月3日入院", plan(date="year"))[0] == "于2023年、〔日期〕入院"
    assert deidentify("术于2019年国庆前", plan(date="month"))[0] == "术于〔日期〕前"
    assert deidentify("于2023年4月11日入院", plan(date="keep"))[0] == "于2023年4月11日入院"


@pytest.mark.parametrize("key", ["", "short"])
def test_missing_or_short_key_is_refused_with_the_remedy(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    assert deidentify("患者王伟，", make_plan())[0] == "患者〔姓名〕，"
    with pytest.raises(UserError, match=f"{KEY_VARIABLE} (is not set|has 5 characters).*secrets.token_hex"):
        plan("hash")


def test_operators_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"operators.name: shift is for birth_date and date only"):
        plan(name="shift")
    with pytest.raises(UserError, match=r"set deidentify.operators.date=month instead"):
        plan("month")
    with pytest.raises(UserError, match="there is no kind 'names'; did you mean name"):
        plan(names="mask")


@stage(name="documents", version=1, params=StageParams, tables=("documents",))
def documents(inputs: dict[str, Artifact], params: StageParams, out: Output) -> None:
    out.map(_write, [0])


def _write(part: PartWriter, _: int) -> None:
    first = make_document("emr", "入院", "患者王伟，2023年4月11日入院。", {"病人号": "00123456", "姓名": "王伟"})
    second = make_document("emr", "出院", "患者王伟，2023年4月21日出院。", {"病人号": "00123456", "主管医师": "李强"})
    other = make_document("emr", "出院", "患者王伟，2023年4月21日出院，好转。", {"病人号": "99999999"})
    part.write("documents", [first, second, other])


def test_documents_of_a_person_share_surrogates_and_the_key_enters_no_artifact(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    raw = run(documents, store, StageParams(), {}).artifact
    params = DeidentifyParams(profile="hipaa", operator="surrogate", person_field="病人号")
    artifact = run(deidentify_documents, store, params, {"documents": raw}).artifact
    rows = artifact.to_table("documents").to_pylist()
    assert len(rows) == 3 and not any("王伟" in row["text"] + row["meta"] for row in rows)
    dates = [shifted_date(row["text"]) for row in rows]
    assert (dates[1] - dates[0]).days == 10
    assert dates[2] != dates[1]
    names = [row["text"][2:4] for row in rows]
    assert names[0] == names[1] != names[2]
    assert json.loads(rows[0]["meta"])["姓名"] == names[0]
    held = [path.read_bytes() for path in Path(artifact.path).rglob("*") if path.is_file()]
    assert held and not any(SECRET.encode() in content for content in held)
    assert artifact.manifest.params["key"] == Key(SECRET.encode()).fingerprint


def shifted_date(text: str) -> datetime.date:
    found = re.search(r"(\d{4})年(\d{1,2})月(\d{1,2})日", text)
    assert found is not None
    return datetime.date(*map(int, found.groups()))


def test_identity_holds_what_was_set_and_the_keys_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DeidentifyParams().model_dump(mode="json") == {"sources": ["emr", "dialogue"]}  # older artifacts stay valid
    one = DeidentifyParams(operators={"date": "shift"}, profile="hipaa").model_dump(mode="json")
    monkeypatch.setenv(KEY_VARIABLE, SECRET[::-1])
    other = DeidentifyParams(operators={"date": "shift"}, profile="hipaa").model_dump(mode="json")
    assert one.pop("key") != other.pop("key")
    assert one == other == {"sources": ["emr", "dialogue"], "profile": "hipaa", "operators": {"date": "shift"}}


@pytest.mark.parametrize("digits", ["\U000f0000\U000f0000", "\U000f0000\U000f0001", "\U000fea5f\U000fea5f"])
def test_a_text_cannot_pose_as_a_mark(digits: str) -> None:
    """Marks stand for identifiers while a text is treated; one in the text itself would be filled with a name."""
    treated, counts = deidentify(f"患者王芳，〔{digits}〕复诊", plan("mask"))
    assert treated == f"患者**，〔{digits}〕复诊" and counts == {"name": 1}
