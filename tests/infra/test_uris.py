"""Secrets in URIs are refused without being repeated; those sent over plain http are warned of."""

from __future__ import annotations

import logging

import pytest

from infra.errors import UserError
from infra.settings import ElasticsearchSettings, Settings
from infra.uris import refuse_password, warn_of_plain_http
from tasks.files.raw_input import RawInput

WITH_PASSWORD = [
    "ftp://reader:s3cret@ward/corpus",
    "s3://KEY:s3cret/+x@bucket/corpus",
    "https://:s3cret@ward/corpus",
    "sftp://reader:p@s3cret@ward:22/corpus",
    "zip://notes.txt::ftp://reader:s3cret@ward/corpus.zip",
]
WITHOUT = [
    "s3://bucket/corpus",
    "http://ward:8080/a@b.txt",
    "ftp://reader@ward/corpus",
    "/data/a:b@c",
    "s3://bucket/a:b@c.txt",
    "http://[::1]:80/a@b.txt",
]


@pytest.mark.parametrize("uri", WITH_PASSWORD)
def test_password_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(UserError, match=r"\*\*\*@.* contains a password.*Use the environment") as refused:
        refuse_password(uri, "Use the environment.")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("uri", WITHOUT)
def test_uris_without_a_password_pass(uri: str) -> None:
    refuse_password(uri, "Use the environment.")


@pytest.mark.parametrize("uri", WITH_PASSWORD[:2])
def test_corpus_and_store_take_no_password(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="set it in the environment: FSSPEC_") as refused:
        RawInput([uri])
    assert "s3cret" not in str(refused.value)
    monkeypatch.setenv("YIWEN_HOME", uri)
    with pytest.raises(UserError, match="Remove it from YIWEN_HOME") as refused:
        Settings.from_environment()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("http://search.ward:9200", True),
        ("http://10.0.0.5:9200", True),
        ("https://search.ward:9200", False),
        ("http://127.0.0.1:9200", False),
        ("http://[::1]:9200", False),
        ("http://localhost:9200", False),
    ],
)
def test_plain_http_is_warned_of(url: str, is_warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_plain_http(url, "The password")
    assert ("The password is sent to" in caplog.text) == is_warned


@pytest.mark.parametrize("secrets", [{"USER": "elastic", "PASSWORD": "s3cret"}, {"API_KEY": "s3cret"}, {}])
def test_elasticsearch_over_plain_http(
    secrets: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("API_KEY", "USER", "PASSWORD", "CA_CERTS"):
        monkeypatch.delenv(f"ELASTICSEARCH_{name}", raising=False)
    for name, value in ({"URL": "http://search.ward:9200"} | secrets).items():
        monkeypatch.setenv(f"ELASTICSEARCH_{name}", value)
    with caplog.at_level(logging.WARNING):
        ElasticsearchSettings.from_environment()
    assert ("Elasticsearch is sent to search.ward:9200" in caplog.text) == bool(secrets)
    assert "s3cret" not in caplog.text
