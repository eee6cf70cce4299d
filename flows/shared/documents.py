"""Text of a run: what users name is checked first, then becomes clean documents and segments."""

from __future__ import annotations

from dataclasses import dataclass

from flows.recipes.data import Recipe
from infra.artifacts import Artifact
from infra.errors import UserError
from infra.settings import Settings
from kg.sources import cmekg
from tasks.clean.repeated_lines import repeated_lines
from tasks.clean.stage import clean
from tasks.decontaminate.stage import decontaminate
from tasks.deduplicate.stage import deduplicate
from tasks.deidentify.stage import DeidentifyParams, deidentify_documents
from tasks.deidentify.untreated import untreated_warning
from tasks.files.raw_input import RawInput
from tasks.ingest.losses import loss_warnings
from tasks.ingest.render_articles import render_articles
from tasks.ingest.stage import ingest
from tasks.runner import StageRunner, warn
from tasks.segment.stage import segment
from tasks.segment.words import read_terms


@dataclass(frozen=True)
class TextInputs:
    """Text of a run and the files that it is prepared with, found to be there."""

    corpus: RawInput | None
    """Files and folders of text; None: articles templated from `facts`."""
    facts: RawInput | None = None
    """The pickle of CMeKG, in place of a corpus."""
    benchmarks: RawInput | None = None
    dictionary: RawInput | None = None


def text_inputs(
    corpus: str | list[str] | None, benchmarks: str | None = None, dictionary: str | None = None
) -> TextInputs:
    """Look for everything that the user named, before any work is done.

    Without a corpus that of YIWEN_CORPUS is used, and without both, articles templated from the facts of CMeKG.

    Raises:
        UserError: something is not there, or the dictionary cannot be read.
    """
    given = corpus if corpus is not None else Settings.from_environment().corpus
    return TextInputs(
        corpus=found(given),
        facts=RawInput(cmekg.locate()) if given is None else None,
        benchmarks=found(benchmarks),
        dictionary=_readable_dictionary(dictionary),
    )


def found(given: str | list[str] | None) -> RawInput | None:
    """Return files and folders that the user named as raw input, None for none. Raises `UserError` if one is absent."""
    if given is None:
        return None
    raw = RawInput(given)
    raw.places()
    return raw


def _readable_dictionary(given: str | None) -> RawInput | None:
    if given is None:
        return None
    raw = RawInput(given)
    read_terms(raw)
    return raw


def collect_documents(run: StageRunner, recipe: Recipe, text: TextInputs) -> dict[str, Artifact]:
    """Run the stages that every flow over text begins with; return the artifact of each by its name, in order.

    Raises:
        UserError: a stage left no document.
    """
    stages: dict[str, Artifact] = {}
    if text.facts is not None:
        warn(
            "No corpus was given: the text is articles templated from the facts of CMeKG. Name yours with the "
            "parameter corpus, or with the setting YIWEN_CORPUS of the worker."
        )
        stages["render_articles"] = run(render_articles, recipe.render, kg=text.facts)
    else:
        assert text.corpus is not None, "there is one without facts"
        stages["ingest"] = run(ingest, recipe.ingest, corpus=text.corpus)
        run.effect(_warn_of_losses, stages["ingest"])
    stages["clean"] = run(clean, recipe.clean, documents=last(stages))
    stages["deidentify"] = run(deidentify_documents, recipe.deidentify, documents=last(stages))
    with run.checks():
        _tell_of_untreated(stages["deidentify"], recipe.deidentify)
    stages["deduplicate"] = run(deduplicate, recipe.deduplicate, documents=last(stages))
    if recipe.repeated_lines is not None:
        stages["repeated_lines"] = run(repeated_lines, recipe.repeated_lines, documents=last(stages))
    if text.benchmarks is not None:
        stages["decontaminate"] = run(
            decontaminate, recipe.decontaminate, documents=last(stages), benchmarks=text.benchmarks
        )
    with run.checks():
        _refuse_emptiness(stages)
    return stages


def _warn_of_losses(ingested: Artifact) -> None:
    for warning in loss_warnings(ingested):
        warn(warning)


def _tell_of_untreated(treated: Artifact, params: DeidentifyParams) -> None:
    """Warn of identifiers in sources that are left as they are.

    Raises:
        UserError: no document was treated, although it was said how they shall be: hipaa, or with the encoder.
    """
    counters = treated.manifest.counters
    how = sorted(params.model_dump().keys() - {"sources"})  # what is not at its default
    if how and not counters.get("documents_treated"):
        named = ", ".join(f"deidentify.{name}" for name in how)
        raise UserError(
            f"No document was de-identified, so that {named} changed nothing: none has one of the sources that are "
            f"treated, {' and '.join(params.sources)}. Text that names no source counts as article. For records of "
            f"patients give --param ingest.source=emr, or name sources with deidentify.sources; else leave {named} out."
        )
    if warning := untreated_warning(counters, params.sources):
        warn(warning)


def _refuse_emptiness(stages: dict[str, Artifact]) -> None:
    """Raise `UserError` if a stage dropped all documents."""
    for stage, artifact in stages.items():
        if not artifact.rows("documents"):
            dropped = [item for item in artifact.manifest.counters.items() if item[0].startswith("rejected_")]
            why = ", ".join(f"{name.removeprefix('rejected_')} {count:,}" for name, count in dropped)
            raise UserError(
                f"Empty corpus: {stage} left no document ({why}). The table rejects in {artifact.path} holds each "
                f"with its reason; look at the text, or change the parameters {stage}.*."
            )


def last(stages: dict[str, Artifact]) -> Artifact:
    """Return the artifact that was made last: the documents for the next stage."""
    return next(reversed(stages.values()))


def cut_segments(
    run: StageRunner, recipe: Recipe, documents: Artifact, text: TextInputs, vocabulary: Artifact | None = None
) -> Artifact:
    """Cut documents into segments, whose tokens are counted with the vocabulary or, without one, estimated."""
    inputs: dict[str, Artifact | RawInput] = {"documents": documents}
    if vocabulary is not None:
        inputs["vocabulary"] = vocabulary
    if text.dictionary is not None:
        inputs["dictionary"] = text.dictionary
    return run(segment, recipe.segment, **inputs)
