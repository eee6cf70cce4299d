"""Loader of settings: origins of values, and one explanation of everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from flows.ablate import ablate
from flows.corpus import corpus
from flows.entities import entities
from flows.finetune import finetune
from flows.knowledge import knowledge
from flows.normalise import normalise
from flows.pretrain import pretrain
from flows.recipes.loading import Values, checked, overlaid, read_preset
from flows.vocabulary import vocabulary
from infra.errors import UserError


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Inner(Strict):
    depth: int = 1


class Tree(Strict):
    trees: int = Field(default=10, ge=1)
    max_depth: int = 5
    min_depth: int = 1
    names: tuple[str, ...] = ()
    by_source: dict[str, Inner] = {}
    workers: int | tuple[int, int] = 1
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _depths(self) -> Tree:
        if self.max_depth < self.min_depth:
            raise ValueError(f"max_depth {self.max_depth} is under min_depth {self.min_depth}")
        return self


class Settings(Strict):
    title: str
    tree: Tree = Tree()
    pruned: Tree | None = None
    free: dict[str, Any] = {}


def load(file: dict[str, Any], overrides: dict[str, Any] | None = None) -> Settings:
    values = overlaid({"title": "t", **file}, "mine.toml", overrides)
    return checked(Settings, values, others=("elsewhere",), free={"free": ("steps", "seed")})


def explanation(file: dict[str, Any], overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(UserError) as raised:
        load(file, overrides)
    return str(raised.value)


FROM_FILE = "(from mine.toml)"
FROM_OVERRIDES = "(from --param or overrides)"


def test_overrides_win_over_the_file_and_leave_both_unchanged() -> None:
    file = {"tree": {"trees": 3, "max_depth": 7}}
    given = {"tree.trees": 4, "free": {"steps": 1}, "free.seed": 2, "pruned.names": ["a"]}
    found = load(file, given)
    assert (found.tree.trees, found.tree.max_depth, found.free) == (4, 7, {"steps": 1, "seed": 2})
    assert found.pruned is not None and found.pruned.names == ("a",)
    assert file == {"tree": {"trees": 3, "max_depth": 7}} and given["free"] == {"steps": 1}


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("tree.tres", "did you mean 'tree.trees'?"),
        ("tree.max_dept", "did you mean 'tree.max_depth' or 'tree.min_depth'?"),
        ("tree.inner.dept", "did you mean 'tree.inner.depth'?"),
        ("tree.by_source.emr.dept", "did you mean 'tree.by_source.emr.depth'?"),
        ("pruned.tres", "did you mean 'pruned.trees'?"),
        ("free.step", "did you mean 'free.steps'?"),
        ("free.x", "known keys: free.seed, free.steps"),
        ("inner.x", "known keys: elsewhere, free, pruned, title, tree"),
    ],
)
def test_unknown_keys_name_their_origin_and_the_nearest_ones(key: str, near: str) -> None:
    assert explanation({}, {key: 1}) == f"unknown key {key!r} {FROM_OVERRIDES}; {near}"
    nested: Any = 1
    for part in reversed(key.split(".")):
        nested = {part: nested}
    if key != "inner.x":
        assert explanation(nested) == f"unknown key {key!r} {FROM_FILE}; {near}"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("tre.trees", "did you mean 'tree.trees'?"),
        ("elsewere.x", "did you mean 'elsewhere.x'?"),
        ("forest.names", "did you mean 'tree.names' or 'pruned.names'?"),
        ("trees", "did you mean 'tree.trees' or 'pruned.trees'?"),
        ("tre.x", "did you mean 'tree'?"),
    ],
)
def test_unknown_sections_are_explained_by_the_whole_key(key: str, near: str) -> None:
    assert explanation({}, {key: 1}) == f"unknown key {key!r} {FROM_OVERRIDES}; {near}"


def test_an_unknown_section_of_the_file_is_not_blamed_on_overrides() -> None:
    assert (
        explanation({"tre": {"trees": 3}}, {"tree.trees": 3}) == f"unknown key 'tre' {FROM_FILE}; did you mean 'tree'?"
    )


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("tree.trees", "many", "tree.trees is 'many' {}: must be a whole number"),
        ("tree.trees", 0, "tree.trees is 0 {}: must be at least 1"),
        ("tree.inner.depth", None, "tree.inner.depth is None {}: must be a whole number"),
        ("tree.names", "[emr]", "tree.names is '[emr]' {}: must be a JSON list, in single quotes on a command line: "
         "--param 'tree.names=[\"…\"]'"),
        ("tree.by_source", "emr", "tree.by_source is 'emr' {}: must be a JSON object, in single quotes on a command "
         "line: --param 'tree.by_source={{\"…\": \"…\"}}'"),
        ("tree.names", ["a", 3], "tree.names.1 is 3 {}: must be text"),
        ("tree", 5, "tree is 5 {}: is a section; give its keys, such as tree.trees"),
    ],
)  # fmt: skip
def test_wrong_values_name_key_value_and_origin(key: str, value: Any, complaint: str) -> None:
    assert explanation({}, {key: value}).startswith(complaint.format(FROM_OVERRIDES))
    nested: Any = value
    for part in reversed(key.split(".")):
        nested = {part: nested}
    assert explanation(nested).startswith(complaint.format(FROM_FILE))


def test_members_of_a_union_are_one_complaint() -> None:
    message = explanation({}, {"tree.workers": "x"})
    assert message.startswith(f"tree.workers is 'x' {FROM_OVERRIDES}: must be a whole number")
    assert " or must be a JSON list" in message and "\n" not in message


def test_a_rule_about_a_section_is_explained_without_its_values() -> None:
    expected = "max_depth 0 is under min_depth 1"
    assert explanation({"tree": {"max_depth": 0}}) == f"tree {FROM_FILE}: {expected}"
    assert explanation({"tree": {"trees": 3}}, {"tree.max_depth": 0}) == f"tree {FROM_OVERRIDES}: {expected}"


def test_missing_keys_and_values_used_as_sections() -> None:
    with pytest.raises(UserError, match=r"^title is missing \(from mine\.toml\)$"):
        checked(Settings, Values({}, "mine.toml"))
    assert (
        explanation({}, {"title.x": 3}) == f"unknown key 'title.x' {FROM_OVERRIDES}: 'title' is a value, not a section"
    )


def test_all_mistakes_are_explained_at_once_one_per_line() -> None:
    message = explanation({"tre": {}, "tree": {"trees": 0}}, {"tree.max_dep": 1, "free.step": 2, "tree.names": "a"})
    assert [line.split(")")[0] + ")" for line in message.splitlines()] == [
        f"unknown key 'tree.max_dep' {FROM_OVERRIDES}",
        f"unknown key 'tre' {FROM_FILE}",
        f"tree.trees is 0 {FROM_FILE}",
        f"tree.names is 'a' {FROM_OVERRIDES}",
        f"unknown key 'free.step' {FROM_OVERRIDES}",
    ]


def test_a_mistake_in_a_preset_file_names_the_file_and_one_on_the_command_line_does_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('title = "t"\n[tree]\ntres = 3\n', encoding="utf-8")
    with pytest.raises(UserError, match=rf"^unknown key 'tree\.tres' \(from {re.escape(str(file))}\); did you mean"):
        checked(Settings, read_preset(str(file)))
    file.write_text('title = "t"\n', encoding="utf-8")
    with pytest.raises(UserError) as raised:
        checked(Settings, read_preset(str(file), {"tree.tres": 3}))
    assert "mine.toml" not in str(raised.value) and FROM_OVERRIDES in str(raised.value)


FLOWS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "corpus": (corpus.fn, "segment.max_token", "'segment.max_tokens' or 'segment.min_tokens'"),
    "vocabulary": (vocabulary.fn, "vocabulary.sise", "'vocabulary.size'"),
    "entities": (entities.fn, "phrases.min_suport", "'phrases.min_support'"),
    "knowledge": (knowledge.fn, "embed.held_ot", "'embed.held_out'"),
    "pretrain": (pretrain.fn, "training.seeed", "'training.seed'"),
    "ablate": (ablate.fn, "model.num_head", "'model.num_heads'"),
    "finetune": (finetune.fn, "finetune.ema_deca", "'finetune.ema_decay'"),
    "normalise": (normalise.fn, "index.queries.splits", "'index.queries.split'"),
}


@pytest.mark.parametrize("name", FLOWS)
def test_every_flow_explains_a_wrong_key_in_the_same_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    flow, key, near = FLOWS[name]
    required: dict[str, Any] = {"finetune": {"tasks": "cmeee"}, "normalise": {"rank": False}}.get(name, {})
    with pytest.raises(UserError, match=rf"^unknown key '{key}' \(from --param or overrides\); did you mean {near}\?$"):
        flow(**required, overrides={key: 3})
    assert not (tmp_path / "home").exists()
