"""Flow `corpus`: raw text to clean, deduplicated segments."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.preset import Preset, load_preset
from infra.artifacts import Artifact
from kg.sources import cmekg
from tasks.clean import clean
from tasks.deduplicate import deduplicate
from tasks.ingest import ingest
from tasks.raw_input import RawInput
from tasks.render_articles import render_articles
from tasks.runner import StageRunner, stage_runner
from tasks.segment import segment


@flow(name="corpus")
def corpus(corpus: str | None = None, preset: str = "ehealth", overrides: dict[str, Any] | None = None) -> str:
    """Raw text to segments; work that was done before is reused.

    Args:
        corpus: file or folder of text; without one, articles templated from the facts of CMeKG.
        preset: name of a shipped preset, or a path to a TOML file.
        overrides: dotted preset keys to values.
    """
    recipe = load_preset(preset, overrides)
    with stage_runner() as run:
        documents = collect_documents(run, recipe, corpus)
        segments = run(segment, recipe.segment, documents=documents)
    return str(segments.path)


def collect_documents(run: StageRunner, recipe: Preset, corpus: str | None) -> Artifact:
    """Ingest or render, clean, deduplicate: the part that every flow over text begins with."""
    if corpus is None:
        documents = run(render_articles, recipe.render, kg=RawInput(cmekg.locate()))
    else:
        documents = run(ingest, recipe.ingest, corpus=RawInput(corpus))
    documents = run(clean, recipe.clean, documents=documents)
    return run(deduplicate, recipe.deduplicate, documents=documents)
