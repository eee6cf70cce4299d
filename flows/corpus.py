"""Flow `corpus`: raw text to clean, de-identified, deduplicated segments, and a page about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from flows.recipe import Recipe, load_recipe, unused_warning
from infra.artifacts import Artifact
from infra.errors import UserError
from infra.settings import Settings
from kg.sources import cmekg
from tasks.clean.repeated_lines import repeated_lines
from tasks.clean.stage import clean
from tasks.decontaminate.stage import decontaminate
from tasks.deduplicate.stage import deduplicate
from tasks.deidentify.stage import deidentify_documents
from tasks.deidentify.untreated import untreated_warning
from tasks.files.raw_input import RawInput
from tasks.ingest.render_articles import render_articles
from tasks.ingest.stage import ingest
from tasks.reports.corpus import report_corpus
from tasks.runner import StageRunner, flow, stage_runner, warn
from tasks.segment.stage import segment
from tasks.segment.words import read_terms
from tasks.vocabulary.files import read_vocabularies
from tasks.vocabulary.stages import AdoptParams, adopt

USED = frozenset(
    ("description", "ingest", "render", "clean", "deidentify", "deduplicate", "repeated_lines", "decontaminate")
) | {"segment", "report"}
"""Sections of a preset that this flow uses."""


@flow(name="corpus")
def corpus(
    corpus: str | list[str] | None = None,
    preset: str = "ehealth",
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Raw text to segments; work that was done before is reused, part by part.

    Args:
        corpus: files or folders of text; without one those of YIWEN_CORPUS, and without that either articles
            templated from the facts of CMeKG.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; what overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with a term a line, or in the form of jieba; its terms are words.
        vocabulary_file: the `vocab.txt` that tokens are counted with; without one their number is estimated.
        overrides: dotted preset keys to values.
    """
    recipe = load_recipe(preset, overrides)
    warn_of_unused(overrides, USED if vocabulary_file is None else USED | {"vocabulary"})
    check_inputs(given_corpus(corpus), benchmarks, dictionary=dictionary)
    check_vocabularies(vocabulary_file)
    with stage_runner() as run:
        stages = collect_documents(run, recipe, corpus, benchmarks)
        counted = {} if vocabulary_file is None else {"vocabulary": adopt_vocabulary(run, recipe, vocabulary_file)}
        segments = cut_segments(run, recipe, last(stages), dictionary, **counted)
        run(report_corpus, recipe.report, **stages, segment=segments)
    return str(segments.path)


def warn_of_unused(overrides: Mapping[str, Any] | None, used: Collection[str] = Recipe.model_fields) -> None:
    """Tell of overrides that the flow makes nothing of, in one line."""
    if warning := unused_warning(overrides, used):
        warn(warning)


def check_inputs(*given: str | list[str] | None, dictionary: str | None = None) -> None:
    """Look for what the user named before any work is done; raises `UserError` where it is not there, or where the
    dictionary cannot be read."""
    for place in given:
        if place is not None:
            RawInput(place).places()
    if dictionary is not None:
        read_terms(RawInput(dictionary))


def check_vocabularies(given: str | list[str] | None) -> None:
    """Read the vocabularies that the user named before any work is done; raises `UserError` where one is none."""
    if given is not None:
        read_vocabularies(RawInput(given))


def given_corpus(corpus: str | list[str] | None) -> str | list[str] | None:
    """What the user named, with the flow or with YIWEN_CORPUS; None for the articles templated from CMeKG."""
    return corpus if corpus is not None else Settings.from_environment().corpus


def collect_documents(
    run: StageRunner, recipe: Recipe, corpus: str | list[str] | None, benchmarks: str | None = None
) -> dict[str, Artifact]:
    """The part that every flow over text begins with; the artifact of each stage by its name, in order."""
    stages: dict[str, Artifact] = {}
    given = given_corpus(corpus)
    if given is None:
        warn(
            "No corpus was given: the text is articles templated from the facts of CMeKG. Name yours with the "
            "parameter corpus, or with the setting YIWEN_CORPUS of the worker."
        )
        stages["render_articles"] = run(render_articles, recipe.render, kg=RawInput(cmekg.locate()))
    else:
        stages["ingest"] = run(ingest, recipe.ingest, corpus=RawInput(given))
    stages["clean"] = run(clean, recipe.clean, documents=last(stages))
    stages["deidentify"] = run(deidentify_documents, recipe.deidentify, documents=last(stages))
    if warning := untreated_warning(stages["deidentify"].manifest.counters, recipe.deidentify.sources):
        warn(warning)
    stages["deduplicate"] = run(deduplicate, recipe.deduplicate, documents=last(stages))
    if recipe.repeated_lines is not None:
        stages["repeated_lines"] = run(repeated_lines, recipe.repeated_lines, documents=last(stages))
    if benchmarks is not None:
        stages["decontaminate"] = run(
            decontaminate, recipe.decontaminate, documents=last(stages), benchmarks=RawInput(benchmarks)
        )
    refuse_emptiness(stages)
    return stages


def refuse_emptiness(stages: dict[str, Artifact]) -> None:
    """Raise `UserError` where some stage has dropped all documents."""
    for stage, artifact in stages.items():
        if not artifact.rows("documents"):
            dropped = [item for item in artifact.manifest.counters.items() if item[0].startswith("rejected_")]
            why = ", ".join(f"{name.removeprefix('rejected_')} {count:,}" for name, count in dropped)
            raise UserError(
                f"Empty corpus: {stage} left no document ({why}). The table rejects in {artifact.path} holds each "
                f"with its reason; look at the text, or change the parameters {stage}.*."
            )


def last(stages: dict[str, Artifact]) -> Artifact:
    """The artifact that was made last: the documents to go on with."""
    return next(reversed(stages.values()))


def adopt_vocabulary(run: StageRunner, recipe: Recipe, vocabulary_file: str) -> Artifact:
    """A `vocab.txt` that the user brought, with its tokeniser."""
    return run(adopt, AdoptParams(max_length=recipe.vocabulary.max_length), file=RawInput(vocabulary_file))


def cut_segments(
    run: StageRunner, recipe: Recipe, documents: Artifact, dictionary: str | None, **inputs: Artifact
) -> Artifact:
    """Segments of documents, counted with the vocabulary where there is one."""
    terms = {} if dictionary is None else {"dictionary": RawInput(dictionary)}
    return run(segment, recipe.segment, documents=documents, **inputs, **terms)
