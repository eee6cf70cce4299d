"""`prefect.yaml`: only keys that Prefect knows (it ignores others in silence), and the deployments we promise."""

from __future__ import annotations

import importlib
import inspect
import json
from typing import Any

import pytest
import yaml
from prefect.cli.deploy._models import (
    ConcurrencyLimitSpec,
    DeploymentConfig,
    PrefectYamlModel,
    RawScheduleConfig,
    WorkPoolConfig,
)
from pydantic import BaseModel

from flows.catalogue import PREFECT_YAML, find, load_catalogue
from flows.cli import main
from flows.cli.parameters import fit_parameters, merge_parameters
from infra.errors import UserError

EXPECTED = {
    "compare/papers",
    "pretrain/ehealth-mini",
    "pretrain/bert-mini",
    "pretrain/cmed-bert-mini",
    "pretrain/electra-mini",
    "pretrain/electra-em-pap-mini",
    "pretrain/embert-mini",
    "pretrain/smedbert-mini",
    "corpus/refresh",
    "vocabulary/build",
    "pretrain/ehealth",
    "pretrain/ehealth-tiny",
    "ablate/ehealth",
    "ablate/ehealth-tiny",
    "pretrain/ehealth-small",
    "pretrain/ehealth-large",
    "pretrain/cmed-bert",
    "pretrain/cmed-bert-tiny",
    "pretrain/electra-em-pap",
    "pretrain/electra-em-pap-tiny",
    "pretrain/smedbert",
    "pretrain/smedbert-tiny",
    "ablate/smedbert",
    "ablate/smedbert-tiny",
    "evaluate/intrinsic",
    "evaluate/products",
    "sweep/electra-em-pap",
    "sweep/electra-em-pap-tiny",
    "sweep/smedbert-hit-ratio",
    "sweep/smedbert-hit-ratio-tiny",
    "sweep/smedbert-neighbours",
    "sweep/smedbert-neighbours-tiny",
    "embed/word2vec-word",
    "embed/word2vec-char",
    "embed/glove-word",
    "embed/glove-char",
    "knowledge/fuse",
    "entities/mine",
    "finetune/cblue",
    "finetune/cmeee",
    "finetune/cmedlms",
    "normalise/index",
    "normalise/encoder",
    "normalise/map",
    "normalise/chip-cdn",
}


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return yaml.safe_load(PREFECT_YAML.read_text(encoding="utf-8"))


def keys_of(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_only_keys_that_prefect_knows(content: dict[str, Any]) -> None:
    assert content.keys() <= keys_of(PrefectYamlModel) | {"definitions"}  # anchors for the rest of the file
    for deployment in content["deployments"]:
        assert deployment.keys() <= keys_of(DeploymentConfig), deployment["name"]
        assert deployment["work_pool"].keys() <= keys_of(WorkPoolConfig)
        assert deployment.get("concurrency_limit", {}).keys() <= keys_of(ConcurrencyLimitSpec)
        for schedule in deployment.get("schedules", []):
            assert schedule.keys() <= keys_of(RawScheduleConfig)
    PrefectYamlModel.model_validate(content)


def test_promised_deployments_match_their_flows() -> None:
    entries = load_catalogue()
    assert {entry.name for entry in entries} >= EXPECTED
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        flow = entry.load_flow()
        assert entry.name.split("/")[0] == flow.name
        signature = inspect.signature(flow.fn)
        assert entry.parameters.keys() == signature.parameters.keys()
        signature.bind(**fit_parameters(flow.fn, merge_parameters(entry, []), []))  # as `flows run` does
        assert importlib.import_module(entry.module).__doc__


def test_refresh_is_weekly_in_shanghai_and_one_at_a_time(content: dict[str, Any]) -> None:
    refresh = next(d for d in content["deployments"] if d["name"] == "refresh")
    assert [s["timezone"] for s in refresh["schedules"]] == ["Asia/Shanghai"]
    assert [len(s["cron"].split()) for s in refresh["schedules"]] == [5]
    assert refresh["concurrency_limit"]["limit"] == 1


def test_list_shows_every_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in EXPECTED)
    assert "Asia/Shanghai" in shown


def test_parameters_are_merged_and_dotted_ones_become_overrides() -> None:
    entry = find("pretrain/ehealth-tiny")
    merged = merge_parameters(entry, ["corpus=a b.txt", "training.steps=100", "model.hidden_dropout=0.0"])
    assert merged["corpus"] == "a b.txt"
    assert merged["preset"] == "ehealth-tiny"
    assert merged["overrides"] == {"training.steps": 100, "model.hidden_dropout": 0.0}


@pytest.mark.parametrize("whole", ["overrides=null", 'overrides={"segment.min_tokens": 5}'])
def test_dotted_keys_win_over_overrides_in_any_order(whole: str) -> None:
    given = [whole, "training.steps=100"]
    for order in (given, given[::-1]):
        found = merge_parameters(find("pretrain/ehealth-tiny"), order)["overrides"]
        assert found == {"training.steps": 100, **({"segment.min_tokens": 5} if "min_tokens" in whole else {})}
    with pytest.raises(UserError, match="overrides=5 is not an object"):
        merge_parameters(find("pretrain/ehealth-tiny"), ["overrides=5", "training.steps=100"])


def test_dotted_key_for_a_flow_without_overrides_is_an_error() -> None:
    with pytest.raises(UserError, match=r"no parameter 'index\.k'\. It has terms, graph, text, encoder, weight\.$"):
        merge_parameters(find("normalise/open-benchmark"), ["index.k=3"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("corpus", "KEY=VALUE"),
        ("korpus=x", r"no parameter 'korpus'\. Did you mean corpus\? .+ list pretrain/ehealth-tiny explains them all"),
        ("zzz=x", r"no parameter 'zzz'\. It has preset, corpus"),
    ],
)
def test_unknown_parameter_is_an_error(given: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        merge_parameters(find("pretrain/ehealth-tiny"), [given])


@pytest.mark.parametrize(
    ("name", "param", "value"),
    [
        ("corpus/refresh", "corpus=2024", "2024"),
        ("corpus/refresh", "corpus=1e3", "1e3"),
        ("corpus/refresh", 'corpus=["2024", "b"]', ["2024", "b"]),
        ("corpus/refresh", "dictionary=true", "true"),
        ("finetune/cmeee", "seeds=[1, 2]", [1, 2]),
        ("finetune/cmeee", "quick=true", True),
    ],
)
def test_text_that_looks_like_a_number_stays_text(name: str, param: str, value: object) -> None:
    entry = find(name)
    found = fit_parameters(entry.load_flow().fn, merge_parameters(entry, [param]), [param])
    assert found[param.partition("=")[0]] == value


def test_value_of_a_wrong_type_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "finetune/cmeee", "--param", "seeds=42"]) == 2
    assert "--param seeds=42 cannot be used: must be a list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "param", "complaint"),
    [
        ("evaluate/intrinsic", "vectors=vectors.txt", "must be an object of keys and values"),
        ("evaluate/intrinsic", 'vectors={"SGNS": 3}', "SGNS: must be text or "),
        ("knowledge/fuse", "graphs=dxy.tsv", "must be an object"),
        ("knowledge/fuse", 'graphs={"dxy": "dxy.tsv"}', "dxy: must be an object"),
    ],
)
def test_object_of_a_wrong_form_is_shown_how_it_is_given(
    name: str, param: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", name, "--param", param]) == 2
    message = capsys.readouterr().err
    assert f"--param {param} cannot be used: {complaint}" in message
    shown = message.rpartition("--param ")[2].strip()
    assert shown.startswith(f"'{param.partition('=')[0]}={{") and shown.endswith("}'.")
    function = find(name).load_flow().fn
    key, _, text = shown[1:-2].partition("=")
    assert fit_parameters(function, {key: json.loads(text)}, [])[key] == json.loads(text)


def test_every_object_that_a_flow_takes_has_an_example_of_its_type() -> None:
    shown: dict[str, object] = {}
    for entry in load_catalogue():
        function = entry.load_flow().fn
        # The keys of overrides are given one by one, and have messages of their own.
        for name in entry.parameters.keys() - {"overrides"}:
            try:
                fit_parameters(function, {name: "text"}, [])
            except UserError as error:
                if "an object of keys and values" in str(error):
                    shown[name] = json.loads(str(error).rpartition(f"'{name}=")[2].removesuffix("'."))
                    assert fit_parameters(function, {name: shown[name]}, []) == {name: shown[name]}
    assert shown.keys() == {"graphs", "vectors", "embeddings", "scores", "other"}


def test_unknown_deployment_error_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "pretrain/ehealth-tyni"]) == 2
    assert "Did you mean pretrain/ehealth-tiny?" in capsys.readouterr().err
