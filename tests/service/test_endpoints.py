"""The endpoints in this process: answers equal those of the Python classes, and faults are told without texts."""

from __future__ import annotations

import json
import logging
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from flows.service import forms
from flows.service.app import MOST_OF_DIAGNOSIS, Service, create_app
from flows.service.engines import fingerprint_of_folder
from flows.service.settings import KEY_VARIABLE, Limits, ServiceSettings, key_from_environment
from infra.errors import UserError
from kg.linking import EntityLinker
from tasks.deidentify import deidentify
from tasks.finetune.predict import Predictor
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.reading.statements import MAX_CHARACTERS
from tests.support.service import folders

torch.set_num_threads(1)  # as in the workers of these tests

DIAGNOSES = [
    "高血压病3级，否认冠心病", "2型糖尿病伴视网膜病变？", "肺部感染", "感冒", "", "脑梗塞、慢性肾脏病",
    "胃炎+支气管哮喘", "低盐饮食", "母亲有糖尿病", "😀肺癌术后", "Ⅱ型糖尿病", "2型糖尿病性视网膜病变",
]  # fmt: skip
RECORDS = ["患者有高血压头痛" * 30, "", "发热", " \t", "ct检查👨‍👩‍👧怎么办", "用二甲双胍治疗2型糖尿病，头疼", "血常规"]
NOTES = [
    "患者王伟，电话13812345678。王伟头痛。",
    "",
    "😀姓名：李娜　住院号：20190871",
    "无",
    "张三丰，住上海市徐汇区漕溪路8号3室",
]
SECRET = "欧阳锋独一无二"
"""A text that must not be found anywhere it was not asked for."""


def asked(client: TestClient, path: str, texts: Any, **more: Any) -> Any:
    answer = client.post(path, json={"texts": texts, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_diagnoses_get_what_the_normaliser_answers(client: TestClient, served: ServiceSettings) -> None:
    assert served.normaliser is not None
    answers = asked(client, "/normalise", DIAGNOSES, candidates=100)["answers"]
    assert answers[-1]["answers"][0]["pair"] == {"dagger": "E11.3", "asterisk": "H36.0"}
    for found, one in zip(answers, Normaliser(served.normaliser, device="cpu").normalise(DIAGNOSES), strict=True):
        assert found.pop("statuses") == list(one.statuses)
        considered = found.pop("considered")
        assert considered == [each._asdict() for each in one.considered]
        wanted = json.loads(json.dumps(asdict(one)))
        assert wanted.pop("considered") is not None
        for answer in (*wanted["answers"], *wanted["unsure"]):
            answer["candidates"] = [
                dict(zip(("code", "term", "score"), each, strict=True)) for each in answer["candidates"]
            ]
            answer["pair"] = answer["pair"] and dict(zip(("dagger", "asterisk"), answer["pair"], strict=True))
        assert found == wanted
    assert answers[0]["answers"][0]["code"] == "I10" and answers[0]["refused"][0]["status"] == "negated"


def test_records_get_what_the_model_answers(client: TestClient, served: ServiceSettings) -> None:
    answers = asked(client, "/predict/cmeee", RECORDS)["answers"]
    predictor = Predictor(served.models["cmeee"], "cpu")
    for text, found in zip(RECORDS, answers, strict=True):
        if not text.strip():
            assert found == {"answer": None, "scores": None, "error": "the text is empty"}
            continue
        (one,) = predictor.predict([text])
        assert found["error"] is None and isinstance(one.answer, tuple)
        assert [(each["start"], each["end"], each["type"]) for each in found["answer"]] == [
            (each.start, each.end, each.type)
            for each in one.answer  # type: ignore[union-attr]
        ]
        assert all(each["text"] == text[each["start"] : each["end"]] for each in found["answer"])
    pairs = [["头痛", "发热"], ["高血压头痛三天", ""], ["血常规", "血常规"]]
    found = asked(client, "/predict/matching", pairs)
    assert found["labels"] == ["0", "1"] and found["task"] == "cmedqq"
    paired = Predictor(served.models["matching"], "cpu")
    empty = found["answers"].pop(1)
    assert empty == {"answer": None, "scores": None, "error": "text 2 is empty"}
    for pair, one in zip([pairs[0], pairs[2]], found["answers"], strict=True):
        (wanted,) = paired.predict([pair])
        assert (one["answer"], tuple(one["scores"])) == (wanted.answer, wanted.scores)  # bit for bit


def test_texts_get_what_the_linker_finds(client: TestClient) -> None:
    names = {name: key for key, own, _, others in folders.ENTITIES for name in (own, *others)}
    linker = EntityLinker(names)
    for text, found in zip(RECORDS, asked(client, "/link", RECORDS)["answers"], strict=True):
        assert [(one["start"], one["end"], one["entity_id"]) for one in found] == linker.link(text)
        assert all(one["text"] == text[one["start"] : one["end"]] for one in found)
    (found,) = asked(client, "/link", ["头疼"])["answers"]
    assert found[0] | {"start": 0} == {
        "start": 0, "end": 2, "text": "头疼", "entity_id": "s1", "name": "头痛", "type": "症状",
    }  # fmt: skip


def test_notes_get_what_deidentify_returns(client: TestClient) -> None:
    plain = asked(client, "/deidentify", NOTES)["answers"]
    for text, one in zip(NOTES, plain, strict=True):
        assert (one["text"], one["counts"]) == deidentify(text)
        assert one["identifiers"] is None
    explained = asked(client, "/deidentify", NOTES, explain=True)["answers"]
    for text, one, before in zip(NOTES, explained, plain, strict=True):
        assert (one["text"], one["counts"]) == (before["text"], before["counts"])
        rebuilt, place = "", 0
        for each in one["identifiers"]:
            rebuilt += text[place : each["start"]] + each["becomes"]
            place = each["end"]
        assert rebuilt + text[place:] == one["text"]


@pytest.mark.parametrize("path", ["/normalise", "/predict/cmeee", "/predict/matching", "/link", "/deidentify"])
def test_answers_are_the_same_alone_and_in_any_company(path: str, client: TestClient) -> None:
    texts: list[Any] = [*DIAGNOSES, *RECORDS[1:], *NOTES]
    if path == "/predict/matching":
        texts = [[one, two] for one, two in zip(texts, reversed(texts), strict=True)]
    alone = [client.post(path, json={"texts": [text]}).text for text in texts]
    draw = random.Random(path)

    def some(_: int) -> None:
        places = draw.choices(range(len(texts)), k=draw.randint(1, 20))
        answer = client.post(path, json={"texts": [texts[place] for place in places]})
        assert answer.status_code == 200
        for place, one in zip(places, answer.json()["answers"], strict=True):
            assert [one] == json.loads(alone[place])["answers"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(16)))


def test_concurrent_requests_share_batches(client: TestClient, service: Service) -> None:
    def batches() -> float:
        families = text_string_to_metric_families(client.get("/metrics").text)
        samples = {
            sample.name: sample.value
            for one in families
            for sample in one.samples
            if sample.labels.get("engine") == "normalise"
        }
        return samples.get("yiwen_batch_texts_count", 0.0)  # absent before the first request

    before = batches()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda text: client.post("/normalise", json={"texts": [text]}), DIAGNOSES * 6))
    assert {one.status_code for one in answers} == {200}
    assert batches() - before < len(answers)


def test_answers_have_the_documented_forms(client: TestClient) -> None:
    for path, form, texts in (
        ("/normalise", forms.NormaliseResponse, DIAGNOSES),
        ("/predict/cmeee", forms.PredictResponse, RECORDS),
        ("/link", forms.LinkResponse, RECORDS),
        ("/deidentify", forms.DeidentifyResponse, NOTES),
    ):
        for given in (texts, []):
            answer = client.post(path, json={"texts": given})
            assert len(form.model_validate_json(answer.content).answers) == len(given)  # type: ignore[attr-defined]
    forms.Health.model_validate_json(client.get("/health").content)
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/normalise", "/predict/{name}", "/link", "/deidentify"}


def test_health_has_the_fingerprints_of_the_folders(client: TestClient, served: ServiceSettings) -> None:
    state = client.get("/health")
    assert state.status_code == 200 and state.json()["ready"] is True
    engines = {one["name"]: one for one in state.json()["engines"]}
    assert set(engines) == {"normalise", "predict/cmeee", "predict/matching", "link", "deidentify"}
    assert engines["predict/cmeee"]["fingerprint"] == fingerprint_of_folder(served.models["cmeee"])
    assert engines["link"]["artifact"].startswith("given_kg_entities/")
    assert engines["predict/cmeee"]["fingerprint"] == asked(client, "/predict/cmeee", ["头痛"])["fingerprint"]
    assert client.get("/health/alive").json() == {"alive": True}
    assert str(served.linker) not in state.text


BAD: list[tuple[bytes, int, str]] = [
    (b"", 400, "no_json"),
    (b"{", 400, "no_json"),
    (b"\xff\xfe{}", 400, "no_json"),
    (b'{"texts":["\xed\xa0\x80"]}', 400, "no_json"),
    (b'{"texts":["\\ud800"]}', 400, "no_json"),
    (b"[" * 50_000, 400, "no_json"),
    (b'{"texts":' + b"[" * 50_000, 400, "no_json"),
    (b"[]", 422, "unusable"),
    (b"null", 422, "unusable"),
    (b"{}", 422, "unusable"),
    (b'{"texts":"x"}', 422, "unusable"),
    (b'{"texts":[1]}', 422, "unusable"),
    (b'{"texts":[null]}', 422, "unusable"),
    (b'{"texts":{"a":"b"}}', 422, "unusable"),
    (b'{"texts":[[["a"]]]}', 422, "unusable"),
    (b'{"texts":[],"more":1}', 422, "unusable"),
    (b'{"texts":[' + b"9" * 4_000 + b"]}", 422, "unusable"),
    (b'{"texts":[' + b"9" * 10_000 + b"]}", 400, "no_json"),
    (b'{"texts":[' + b'"a",' * 64 + b'"a"]}', 422, "unusable"),
    (b'{"texts":["' + b"a" * 5_001 + b'"]}', 422, "unusable"),
    (b"x" * 200_001, 413, "too_long"),
]


@pytest.mark.parametrize("path", ["/normalise", "/predict/cmeee", "/link", "/deidentify"])
def test_bad_bodies_are_refused(path: str, client: TestClient) -> None:
    for body, status, error in BAD:
        answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]) == (status, error), body[:60]
        forms.ErrorResponse.model_validate_json(answer.content)


def test_bad_requests_name_the_place(client: TestClient) -> None:
    answer = client.post("/predict/matching", json={"texts": [["a", "b"], ["a"]]})
    assert answer.status_code == 422
    assert answer.json()["problems"] == [{"where": ["texts", 1], "message": "1 text"}]
    assert "cmedqq has 2 texts" in answer.json()["message"]
    unusable: list[tuple[str, dict[str, Any], list[Any], str]] = [
        ("link", {"text": ["胸闷"]}, ["texts"], "Field required"),
        ("link", {"texts": [], "胸闷三天": 1}, ["?"], "There is no such field; the fields here are texts."),
        ("link", {"texts": ["a", None]}, ["texts", 1], "must be text"),
        ("predict/cmeee", {"texts": [None]}, ["texts", 0], "Must be a text, or a list of texts."),
        ("normalise", {"texts": [], "candidates": 101}, ["candidates"], "must be at most 100"),
    ]
    for path, given, where, message in unusable:
        answer = client.post(f"/{path}", json=given)
        assert answer.status_code == 422 and "胸闷" not in answer.text
        assert answer.json()["problems"][0] == {"where": where, "message": message}
    for candidates in (-1, 101, 1e400, "3", 10**30):
        body = json.dumps({"texts": [], "candidates": candidates})
        answer = client.post("/normalise", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422)
    assert MOST_OF_DIAGNOSIS == MAX_CHARACTERS, "what the normaliser would not read is refused"
    long = client.post("/normalise", json={"texts": ["肺炎", "肺" * 1_001]})
    assert long.status_code == 422 and long.json()["problems"][0]["where"] == ["texts", 1]


def test_other_requests_are_refused(client: TestClient) -> None:
    for path, method, status in (
        ("/nothing", "GET", 404), ("/predict/other", "POST", 404), ("/predict/..%2f..%2fetc", "POST", 404),
        ("/normalise/", "POST", 404), ("/page.css/../../../etc/passwd", "GET", 404),
        ("/link", "GET", 405), ("/health", "DELETE", 405),
    ):  # fmt: skip
        answer = client.request(
            method, path, headers={"Content-Type": "application/json"}, content=b"{}" if method == "POST" else None
        )
        assert answer.status_code == status, (path, answer.status_code)
        forms.ErrorResponse.model_validate_json(answer.content)
    assert client.post("/link", content=b'{"texts":[]}', headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.get("/health", headers={"Host": "attacker.example"}).status_code == 421
    for host in ("localhost:8765", "127.0.0.1", "[::1]:80", "127.0.0.2"):
        assert client.get("/health", headers={"Host": host}).status_code == 200


def test_texts_are_nowhere_but_in_answers(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for body in (
            {"texts": [SECRET], SECRET: 1},
            {"texts": [[SECRET]]},
            {"texts": [SECRET * 1_000]},
            {"texts": {SECRET: SECRET}},
        ):
            for path in (
                "/normalise",
                "/predict/matching",
                "/link",
                "/deidentify",
                f"/{SECRET}",
                f"/predict/{SECRET}?q={SECRET}",
            ):
                answer = client.post(path, json=body)
                assert answer.status_code in (404, 422), (path, body)
                assert SECRET not in answer.text and SECRET[:3] not in answer.text
        asked(client, "/deidentify", [f"患者{SECRET}，头痛"])
    assert SECRET not in client.get("/metrics").text + client.get("/health").text + caplog.text


def test_pages_need_no_network_and_no_inline_script(client: TestClient) -> None:
    for path in ("/", "/docs", "/page.css", "/page.js"):
        answer = client.get(path)
        assert answer.status_code == 200 and client.head(path).status_code == 200
        assert "://" not in answer.text.replace("http://www.w3.org", "")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
    page = client.get("/").text
    assert "<style" not in page and "style=" not in page and "onclick" not in page
    assert page.count("<script") == 1 == page.count('<script src="page.js"')


@pytest.fixture(scope="module")
def guarded() -> Any:
    """A service with a key and nothing heavy."""
    settings = ServiceSettings(deidentify=True, key="k" * 20, host="0.0.0.0", limits=Limits())
    with TestClient(create_app(Service(settings)), base_url="http://service.example") as found:
        yield found


def test_all_but_health_is_closed_without_the_key(guarded: TestClient) -> None:
    for path in ("/", "/docs", "/openapi.json", "/metrics", "/page.js", "/nothing"):
        assert guarded.get(path).status_code == 401, path
    assert guarded.post("/deidentify", json={"texts": []}).status_code == 401
    assert guarded.get("/health").status_code == 200 == guarded.get("/health/alive").status_code
    for given in (
        "",
        "Bearer",
        "Bearer x",
        f"Bearer {'k' * 19}",
        f"Bearer {'k' * 21}",
        "Basic !!!",
        f"Token {'k' * 20}",
    ):
        assert guarded.get("/metrics", headers={"Authorization": given}).status_code == 401, given
    assert guarded.get("/metrics", headers={"Authorization": f"Bearer {'k' * 20}"}).status_code == 200
    assert guarded.get("/", auth=("anybody", "k" * 20)).status_code == 200
    assert guarded.get("/", auth=("k" * 20, "")).status_code == 401
    # Only pages make a browser ask.
    for page in ("/", "/docs", "/page.css", "/page.js"):  # a key in the address comes with the first of them alone
        assert guarded.get(page).headers["www-authenticate"].startswith("Basic"), page
    assert guarded.get("/metrics").headers["www-authenticate"] == "Bearer"


def test_keys_that_are_no_secret_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("short", "x" * 15, "two words " * 3, "密" * 20):
        monkeypatch.setenv(KEY_VARIABLE, key)
        with pytest.raises(UserError, match="at least 16 characters"):
            key_from_environment()
    monkeypatch.setenv(KEY_VARIABLE, "a" * 16)
    assert key_from_environment() == "a" * 16
    monkeypatch.setenv(KEY_VARIABLE, "")
    assert key_from_environment() is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Nothing to serve"),
        ({"models": {"a/b": Path(".")}}, "--model a/b="),
        ({"deidentify": True, "port": 70_000}, "--port 70000"),
        ({"deidentify": True, "host": "0.0.0.0"}, "Set YIWEN_API_KEY"),
        ({"deidentify": True, "host": "::"}, "Set YIWEN_API_KEY"),
    ],
)
def test_settings_that_cannot_be_used_name_the_remedy(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        ServiceSettings(**given).checked()
    for host in ("127.0.0.1", "localhost", "::1"):
        assert ServiceSettings(deidentify=True, host=host).checked().is_local
    assert ServiceSettings(deidentify=True, host="0.0.0.0", without_key=True).checked()
