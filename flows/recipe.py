"""Recipes: what a TOML file of presets says about data, from raw text to segments, entities and vocabulary.

Flows that train nothing read no more than this of a preset: what a network needs would bring torch with it, which takes
600 MB and some seconds that a corpus has no use for.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra.errors import UserError
from tasks.clean.repeated_lines import RepeatedLinesParams
from tasks.clean.stage import CleanParams
from tasks.decontaminate.stage import DecontaminateParams
from tasks.deduplicate.stage import DeduplicateParams
from tasks.deidentify.stage import DeidentifyParams
from tasks.entities.stage import EntitiesParams
from tasks.ingest.render_articles import RenderParams
from tasks.ingest.stage import IngestParams
from tasks.knowledge.fuse import FuseGraphsParams
from tasks.knowledge.link import LinkParams
from tasks.knowledge.thesaurus import ThesaurusParams
from tasks.phrases.segments import PhraseSegmentsParams
from tasks.phrases.stage import PhrasesParams
from tasks.pretrain.encode import EncodeParams
from tasks.reports.corpus import ReportParams
from tasks.reports.entities import ReportEntitiesParams
from tasks.reports.graph import ReportGraphParams
from tasks.reports.vocabulary import ReportVocabularyParams
from tasks.segment.stage import SegmentParams
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams

FOLDER = Path(__file__).parent / "presets"

OF_NETWORKS = ("neighbours", "embed", "objective", "model", "training", "cluster", "export")
"""Sections that `flows.preset.Preset` has besides."""


class Recipe(BaseModel):
    """The parameters of every stage that works on data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    ingest: IngestParams = Field(default_factory=IngestParams)
    render: RenderParams = Field(default_factory=RenderParams)
    clean: CleanParams = Field(default_factory=CleanParams)
    deidentify: DeidentifyParams = Field(default_factory=DeidentifyParams)
    deduplicate: DeduplicateParams = Field(default_factory=DeduplicateParams)
    repeated_lines: RepeatedLinesParams | None = None
    decontaminate: DecontaminateParams = Field(default_factory=DecontaminateParams)
    report: ReportParams = Field(default_factory=ReportParams)
    count_words: CountWordsParams = Field(default_factory=CountWordsParams)
    vocabulary: VocabularyParams = Field(default_factory=VocabularyParams)
    report_vocabulary: ReportVocabularyParams = Field(default_factory=ReportVocabularyParams)
    segment: SegmentParams = Field(default_factory=SegmentParams)
    encode: EncodeParams = Field(default_factory=EncodeParams)
    fuse: FuseGraphsParams = Field(default_factory=FuseGraphsParams)
    link: LinkParams = Field(default_factory=LinkParams)
    report_graph: ReportGraphParams = Field(default_factory=ReportGraphParams)
    phrases: PhrasesParams = Field(default_factory=PhrasesParams)
    phrase_segments: PhraseSegmentsParams = Field(default_factory=PhraseSegmentsParams)
    entities: EntitiesParams = Field(default_factory=EntitiesParams)
    thesaurus: ThesaurusParams = Field(default_factory=ThesaurusParams)
    report_entities: ReportEntitiesParams = Field(default_factory=ReportEntitiesParams)


R = TypeVar("R", bound=Recipe)


def load_recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """What a preset says about data; of a network only the keys that are overridden are looked at.

    `flows.preset.load_preset` reads it all.

    Raises:
        UserError: no such preset, unknown keys, or values that cannot work; the message names the key.
    """
    values = read_values(name, overrides)
    if any(_section(key) in OF_NETWORKS for key in overrides or {}) and "objective" in read_values(name):
        from flows.preset import check_names

        check_names(name, overrides)
    return checked(Recipe, name, {key: value for key, value in values.items() if key not in OF_NETWORKS})


def unused_warning(overrides: Mapping[str, Any] | None, used: Collection[str] = Recipe.model_fields) -> str | None:
    """What to tell of overrides in sections that a flow does not use; None where it uses them all."""
    unused = sorted(key for key in overrides or {} if _section(key) not in used)
    return f"This flow makes nothing of {', '.join(unused)}: these are settings of other flows." if unused else None


def _section(key: str) -> str:
    return key.partition(".")[0]


def read_values(name: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The content of a preset's TOML file, with overrides by dotted keys."""
    path = _find(name)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    for key, value in (overrides or {}).items():
        _set(values, key, value)
    return values


def checked(model: type[R], name: str, values: Mapping[str, Any]) -> R:
    """The values of a preset as a model; raises `UserError` that names the key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(f"Preset {_find(name)}: {_explain(error, model)}") from error


def preset_names() -> list[str]:
    """The shipped presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _find(name: str) -> Path:
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise UserError(
            f"There is no preset {name!r}. Shipped ones: {', '.join(preset_names())}; or give a path to a .toml file."
        )
    return path


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise UserError(f"Override {key!r}: {section!r} is a value, not a section.")
    values[last] = value


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    return "; ".join(_explain_one(problem, model) for problem in error.errors())


_FORMS = {"tuple_type": '["…"]', "list_type": '["…"]', "dict_type": '{"…": "…"}'}
"""What is given in place of a text that the shell has taken the quotes out of, or that is one of a list's."""


def _explain_one(problem: Any, preset: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if form := _FORMS.get(problem["type"]):
        given = problem["input"]
        return f"{key} takes JSON, in quotes that the shell takes off: --param '{key}={form}' (given: {given!r})"
    if problem["type"] != "extra_forbidden":
        return f"{key}: {problem['msg']} (given: {problem.get('input')!r})"
    model = preset
    for part in problem["loc"][:-1]:
        asked = model.model_fields[part].annotation
        model = next(one for one in (asked, *get_args(asked)) if hasattr(one, "model_fields"))  # a section may be None
    known = sorted({*model.model_fields, *(OF_NETWORKS if len(problem["loc"]) == 1 else ())})
    close = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
    return f"unknown key {key!r}; {hint}"
