"""Generated pages of the site: everything that the code has is there, with its type, default and meaning."""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from docs.generate import downstream, environment, flows, measurements, presets, python, settings, tables
from docs.generate.markdown import code, prose, table
from flows.catalogue import load_catalogue
from flows.recipes.loading import preset_names, read_preset
from flows.recipes.meanings import REQUIRED, of_dataclass, of_function, of_model
from infra.schemas import TABLES
from tasks.downstream.catalogue import TASKS
from tests.support.fixed_names import FIXED_NAMES


class Inner(BaseModel):
    size: int | None = Field(default=3, ge=1, description="Number of things.")


class Outer(BaseModel):
    name: str
    """What it is called."""
    kind: Literal["a", "b"] = "a"
    inner: Inner = Field(default_factory=Inner)
    others: tuple[str, ...] = ("x",)


@dataclass(frozen=True)
class Base:
    rate: float = 0.5
    """Share
    of all."""


@dataclass(frozen=True)
class Derived(Base):
    steps: int = 7


def test_settings_of_a_model_have_type_limits_default_and_meaning() -> None:
    found = {one.key: one for one in of_model(Outer)}
    assert found["name"][1:3] == ("text", REQUIRED)
    assert found["kind"][1:3] == ('"a" | "b"', '"a"')
    assert found["inner.size"][1:] == ("whole number | null, ≥ 1", "3", "Number of things.")
    assert found["others"][1:3] == ("list of text", '["x"]')


def test_meanings_below_fields_are_those_of_our_own_packages_and_their_bases() -> None:
    from models.objectives.electra.config import ElectraObjectiveConfig

    found = {one.key: one for one in of_dataclass(ElectraObjectiveConfig)}
    assert found["rtd_weight"].meaning == "Weight of replaced token detection in the loss."
    assert found["hidden_size"].default == "768"  # of a base class
    assert [one.default for one in of_dataclass(Derived)] == ["0.5", "7"]


def test_parameters_of_a_function_have_the_meanings_of_its_docstring() -> None:
    def work(corpus: str | list[str] | None = None, size: int = 3) -> None:
        """Do it.

        Args:
            corpus: files or folders; by default
                none.
            size: how many.
        """

    corpus, size = of_function(work)
    assert (corpus.type, corpus.default, size.meaning) == ("str | list[str] | None", "null", "how many.")
    assert corpus.meaning.split() == ["files", "or", "folders;", "by", "default", "none."]


def test_cells_cannot_break_a_table() -> None:
    lines = table(("a",), [("x | y\nz",), (prose("<b> `<c>`"),), (code("`"),)]).splitlines()
    assert lines == ["| a |", "| --- |", "| x \\| y z |", "| &lt;b&gt; `<c>` |", "| `` ` `` |"]


def test_every_deployment_is_on_the_page_of_flows() -> None:
    page = flows.page()
    assert [entry.name for entry in load_catalogue() if f"`{entry.name}`" not in page] == []


def test_every_parameter_of_a_flow_has_a_meaning() -> None:
    functions = {(entry.module, entry.function): entry.load_flow().fn for entry in load_catalogue()}
    lacking = [
        f"{module}.{name}: {one.key}"
        for (module, name), function in functions.items()
        for one in of_function(function)
        if not one.meaning or re.match("as in (?:the flow|pretrain)", one.meaning)  # nobody reads two lists for one
    ]
    assert lacking == []


def test_no_two_parameters_of_a_flow_share_a_meaning() -> None:
    for entry in load_catalogue():
        meanings = Counter(one.meaning for one in of_function(entry.load_flow().fn))
        assert [meaning for meaning, count in meanings.items() if count > 1] == [], entry.name


def test_every_key_of_a_preset_is_on_a_page_of_settings() -> None:
    pages = settings.stages_page() + settings.models_page()
    for name in preset_names():
        for key in _keys(read_preset(name).nested):
            assert f"`{key}`" in pages or key.startswith(("training.tasks.", "clean.profiles.")), f"{name}: {key}"


def _keys(nested: dict[str, object], prefix: str = "") -> list[str]:
    found = []
    for name, value in nested.items():
        found += _keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]
    return found


def test_settings_of_recipes_that_are_not_listed_are_found() -> None:
    class LateRecipe(BaseModel):
        """Settings of a flow that came later."""

        inner: Inner = Field(default_factory=Inner)

    from flows.recipes import data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "LateRecipe", LateRecipe, raising=False)
        page = settings.stages_page()
    assert "## LateRecipe" in page and "`inner.size`" in page
    assert "## LateRecipe" not in settings.stages_page()


def test_every_preset_is_shown_whole() -> None:
    page = presets.page()
    assert [name for name in preset_names() if f"\n## {name}\n" not in page] == []
    assert "## ehealth-tiny" in page and "mask_probability" in page


def test_every_table_and_column_has_its_description() -> None:
    page = tables.page()
    for name, schema in TABLES.items():
        assert any(name in line for line in page.splitlines() if line.startswith("## ")), name
        assert all(f"| `{field.name}` |" in page for field in schema), name


def test_every_task_is_in_the_table_of_its_suites() -> None:
    page = downstream.page()
    assert [spec.name for spec in TASKS if page.count(f"| `{spec.name}` |") != len(spec.suites)] == []
    assert "`CMeEE_{train,dev,test}.json`" in page


def test_every_variable_of_the_environment_has_a_meaning() -> None:
    found = environment.variables()
    assert {"YIWEN_HOME", "YIWEN_LIMITS", "ELASTICSEARCH_CA_CERTS"} <= found.keys()
    assert [name for name, meaning in found.items() if not meaning] == []
    assert "Root of the artifact store" in found["YIWEN_HOME"]


@pytest.mark.parametrize("name", [name for page in python.PAGES.values() for name in page.names])
def test_names_of_the_python_pages_are_importable_and_described(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(module), attribute).__doc__


def test_fixed_names_are_on_the_python_pages() -> None:
    shown = {name for page in python.PAGES.values() for name in page.names}
    assert sorted(set(FIXED_NAMES) - shown) == []


def test_every_page_of_measurements_is_listed() -> None:
    page = measurements.page()
    assert [path.name for path in measurements.RESULTS.glob("*.md") if path.name not in page] == []
    dates = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| 2")]
    assert dates == sorted(dates, reverse=True) and len(dates) > 50


def test_defaults_are_json() -> None:
    for one in of_model(settings.RECIPES[0][2]):
        if one.default != REQUIRED:
            json.loads(one.default)
