"""Secrets in URIs are refused without being repeated; those sent over plain http are warned of."""

from __future__ import annotations

import logging
import re

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.settings import ElasticsearchSettings, Settings
from infra.uris import refuse_secrets, warn_of_plain_http
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
    "http://ward/x.jsonl?f=x.jsonl&page=2#part",
    "http://ward/x?keyword=a&author=b&tokenizer=c&monkey=d&userid=e&f=token&token=",
    "s3://bucket/key=1/token=2/x.parquet",
    "postgresql://reader@db/shop?sslkey=/keys/shop.pem&sslmode=require",
    "/data/x.jsonl?token=1",
]

WITH_SECRET = [
    ("http://ward/x.jsonl?token=s3cret&f=x.jsonl", "http://ward/x.jsonl?token=***&f=x.jsonl contains a secret (token)"),
    ("https://ward/x?f=1&Access_Key=s3cret", "?f=1&Access_Key=*** contains a secret (Access_Key)"),
    ("https://b.s3.amazonaws.com/x?X-Amz-Signature=s3cret", "?X-Amz-Signature=*** contains a secret (X-Amz-Signature)"),
    ("https://ward/x?X-Goog-Date=s3cret", "a secret (X-Goog-Date)"),  # the address is signed as a whole
    ("https://ward/x?X-Amz-Security-Token=s3cret", "a secret (X-Amz-Security-Token)"),
    ("https://blob/x?sv=2024&sig=s3cret%3D", "?sv=2024&sig=*** contains a secret (sig)"),
    ("https://oss/x?OSSAccessKeyId=s3cret", "a secret (OSSAccessKeyId)"),
    ("https://ward/x?apikey=s3cret", "a secret (apikey)"),
    ("https://ward/x?API-TOKEN=s3cret", "a secret (API-TOKEN)"),
    ("https://ward/x?userPassword=s3cret;s3cret", "?userPassword=*** contains"),
    ("https://ward/x?a=1;pwd=s3cret", "a secret (pwd)"),
    ("https://ward/x?%74oken=s3cret", "a secret (token)"),
    ("https://ward/x?url=https%3A%2F%2Fother%3Ftoken%3Ds3cret", "?url=*** contains a secret (token)"),
    ("https://ward/x#access_token=s3cret", "#access_token=*** contains"),
    ("zip://a.txt::https://ward/a.zip?auth=s3cret", "zip://a.txt::https://ward/a.zip?auth=*** contains"),
    ("https://me:s3cret@ward/x?sas=s3cret", "***@ward/x?sas=*** contains a password and a secret (sas)"),
]


@pytest.mark.parametrize("uri", WITH_PASSWORD)
def test_password_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(UserError, match=r"\*\*\*@.* contains a password.*Use the environment") as refused:
        refuse_secrets(uri, "Use the environment.")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(("uri", "shown"), WITH_SECRET)
def test_secret_parameter_is_refused_and_not_repeated(uri: str, shown: str) -> None:
    with pytest.raises(UserError, match=f"{re.escape(shown)}.*download the files and give the local copy") as refused:
        refuse_secrets(uri)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("uri", WITHOUT)
def test_uris_without_a_password_pass(uri: str) -> None:
    refuse_secrets(uri, "Use the environment.")


@pytest.mark.parametrize("uri", [*WITH_PASSWORD[:2], WITH_SECRET[0][0]])
def test_corpus_and_store_take_no_secret(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for take in (lambda: RawInput([uri]), lambda: ArtifactStore(uri)):
        with pytest.raises(UserError, match="set it in the environment: FSSPEC_") as refused:
            take()
        assert "s3cret" not in str(refused.value)
    monkeypatch.setenv("YIWEN_HOME", uri)
    with pytest.raises(UserError, match="Remove it from YIWEN_HOME") as refused:
        Settings.from_environment()
    assert "s3cret" not in str(refused.value)


class _Listing(MemoryFileSystem):
    """A folder over http, whose index consists of links that are signed."""

    protocol = "signed"

    def find(self, path: str, *arguments: object, **options: object) -> list[str]:
        return [f"{path}/x.jsonl?X-Amz-Signature=s3cret"]

    def isfile(self, path: str) -> bool:
        return False

    def exists(self, path: str, **options: object) -> bool:
        return True


def test_listed_links_have_no_secret_either() -> None:
    fsspec.register_implementation("signed", _Listing, clobber=True)
    with pytest.raises(UserError, match=r"x\.jsonl\?X-Amz-Signature=\*\*\*") as refused:
        RawInput("signed://ward/notes").places()
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
