"""Flow `corpus`: raw text to clean, de-identified, deduplicated segments, and a page about them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.data import Recipe
from flows.recipes.partial import load_recipe
from flows.shared.documents import collect_documents, cut_segments, last, text_inputs
from flows.shared.vocabularies import adopt_vocabulary, vocabulary_input
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import discard
from infra.console.progress import BestEffort
from infra.runs import note_page, stages_begun
from tasks.reports.corpus import report_corpus
from tasks.reports.corpus_run import write_run_page
from tasks.runner import flow, info, stage_runner, warn

USED = frozenset(
    ("description", "ingest", "render", "clean", "deidentify", "deduplicate", "repeated_lines", "decontaminate")
) | {"segment", "report"}
"""Sections of a preset that this flow uses."""

RAW = frozenset(("ingest", "clean"))
"""Stages before de-identification, whose artifacts hold the original text."""

SETTINGS = (Recipe,)
"""Models of the keys of `overrides`."""


@flow(name="corpus")
def corpus(
    corpus: str | list[str] | None = None,
    preset: PresetName = "default",
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    keep_raw: bool = True,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Turn raw text into segments; work that was done before is reused, part by part.

    Args:
        corpus: files or folders of text; by default those of YIWEN_CORPUS or, without that either, articles templated
            from the facts of CMeKG.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        vocabulary_file: `vocab.txt` to count tokens with; without one, their number is estimated.
        keep_raw: False to delete what `ingest` and `clean` made, which holds the original text, once the page is made.
            Their manifests are kept; the next run reads the whole corpus again. A run that fails or is interrupted
            keeps them, to resume from: it names their folders, and how to delete them.
        overrides: dotted preset keys to values, such as `{"segment.min_tokens": 8}`.

    Returns:
        The folder of the segments.
    """
    recipe = load_recipe(preset, overrides, used=USED if vocabulary_file is None else USED | {"vocabulary"})
    text = text_inputs(corpus, benchmarks, dictionary)
    given = vocabulary_input(vocabulary_file)
    with stage_runner() as run, contextlib.nullcontext() if keep_raw else _told_of_raw_text(run.store):
        stages = collect_documents(run, recipe, text)
        vocabulary = None if given is None else adopt_vocabulary(run, recipe, given)
        segments = cut_segments(run, recipe, last(stages), text, vocabulary)
        report = run(report_corpus, recipe.report, **stages, segment=segments)
        files = "the facts of CMeKG" if text.corpus is None else text.corpus.path
        run.effect(_write_page, run.store, report, files, {"preset": preset, **(overrides or {})})
        if not keep_raw:
            for name in RAW & stages.keys():
                run.effect(discard, run.store, stages[name])
    return str(segments.path)


@contextlib.contextmanager
def _told_of_raw_text(store: ArtifactStore) -> Iterator[None]:
    """Warn of the original text that is left if the block fails or is interrupted.

    It is not deleted then: what failed may be one parameter of the last stage, and the same command would read and
    clean the whole corpus for each try.
    """
    try:
        yield
    except BaseException:
        with BestEffort("Where raw text is left"):
            if left := _raw_folders(store):
                warn(
                    f"Raw text is left in {' and '.join(left)}, although keep_raw=false: the run ended before it could "
                    "be deleted. The same command resumes from it, and deletes it once it finishes; a run with another "
                    f"corpus, or other parameters of ingest or clean, does not. {_deletion(store, left)}"
                )
        raise


def _raw_folders(store: ArtifactStore) -> list[str]:
    """Return the folders with the original text that the current run has made or reused, finished or not."""
    names = [
        f"{stage}/{name}"
        for stage, fingerprint in dict.fromkeys(stages_begun())
        if stage in RAW
        for name in (fingerprint, f".{fingerprint}.partial")
    ]
    store.filesystem.invalidate_cache()
    folders = [store.absolute(name) for name in names if store.filesystem.exists(store.absolute(name))]
    return folders if store.is_local else [store.filesystem.unstrip_protocol(folder) for folder in folders]


def _deletion(store: ArtifactStore, folders: list[str]) -> str:
    """Return how to delete folders of the store."""
    if store.is_local:
        return f"To delete it now: rm -r {shlex.join(folders)}"
    return "To delete it now, delete these folders with the client of the storage."


def _write_page(store: ArtifactStore, report: Artifact, files: str, given: dict[str, Any]) -> None:
    with BestEffort("The page of this run"):
        page = write_run_page(store, report, files, given, datetime.now(UTC))
        note_page(page)
        info(f"Page of this run, with its date and what has changed: {page}")
