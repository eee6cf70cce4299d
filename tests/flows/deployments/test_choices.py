"""The forms of deployments in the Prefect UI: choices where there are choices, and a version that has to match."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from infra.settings import REPOSITORY
from infra.version import VERSION

CODE = """
import json, prefect
from types import SimpleNamespace
import infra.notify
told = []
infra.notify.notify_failure = lambda *names: told.append(names)
from prefect.utilities.callables import parameter_schema
from flows.catalogue import load_catalogue
names = ("pretrain/ehealth", "finetune/cblue", "evaluate/intrinsic", "embed/glove-word")
flows = {entry.name: entry.load_flow() for entry in load_catalogue() if entry.name in names}
failed = flows["pretrain/ehealth"].on_failure_hooks + flows["pretrain/ehealth"].on_crashed_hooks
for hook in failed:
    hook(SimpleNamespace(name="pretrain"), SimpleNamespace(name="blue-fox"), prefect.states.Crashed(message="张三"))
flows["pretrain/ehealth"].validate_parameters({"preset": "mine.toml", "corpus": ["a", "b"]})  # as a worker does
print(json.dumps(told))
print(json.dumps({name: parameter_schema(flow).model_dump()["properties"] for name, flow in flows.items()}))
from infra.errors import UserError
from tasks.runner.prefect_run import refuse_other_version
refuse_other_version(None)
try:
    refuse_other_version("0.0.9")
except UserError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def said() -> list[str]:
    """Printed by a process that imports Prefect first, as workers do: only then flows are Prefect's."""
    done = subprocess.run([sys.executable, "-c", CODE], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_forms_offer_choices(said: list[str]) -> None:
    forms = json.loads(said[-2])
    preset = forms["pretrain/ehealth"]["preset"]["anyOf"]
    assert "smedbert-tiny" in preset[0]["enum"] and preset[1] == {"type": "string", "title": "A TOML file of your own"}
    assert "cmeee" in forms["finetune/cblue"]["tasks"]["anyOf"][0]["enum"]
    evaluations = forms["evaluate/intrinsic"]["evaluations"]["anyOf"][0]
    assert evaluations["items"]["enum"] == ["attention", "similarity"]
    assert forms["embed/glove-word"]["method"]["enum"] == ["word2vec", "glove"]
    assert all(one.get("description") for form in forms.values() for one in form.values())


def test_a_worker_of_another_version_is_refused_with_both(said: list[str]) -> None:
    assert "registered by version 0.0.9" in said[-1] and f"runs version {VERSION}" in said[-1]
    assert "prefect deploy --all" in said[-1]


def test_failed_and_crashed_runs_are_told_by_name(said: list[str]) -> None:
    assert json.loads(said[-3]) == [["pretrain", "blue-fox", "crashed"]] * 2
