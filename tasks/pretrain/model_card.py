"""The model card: what the model is, what it was made from and how well it does, from the records of its run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from infra.artifacts import Artifact, ArtifactStore
from models import objectives
from models.knowledge_model.source import KNOWLEDGE_MODEL
from tasks.training.run_spec import RunSpec
from tasks.training.terms import CHANCE, chance_of

TEMPLATED = (
    "**The text is templated**: real facts of the knowledge graph CMeKG (package PyCMeKG, MIT licence) put into "
    "plain sentence templates. It is not natural text. A model trained on it shows that the pipeline works, but is not "
    "meant for use on patients' or doctors' language."
)


_FORMS = [
    "",
    f"This is the plain encoder, without knowledge. The model with its knowledge is in `{KNOWLEDGE_MODEL}/`, which has",
    "a card of its own; fine-tuning and evaluation take either folder.",
]


@dataclass(frozen=True)
class TrainingRecord:
    """A training in its model card: steps done, duration if known, and held-out figures."""

    step: int
    code_version: str
    figures: Mapping[str, float]
    seconds: float | None = None
    curves: bool = False
    """True if `curves.png` is beside the card."""

    @classmethod
    def of(cls, checkpoint: Artifact) -> TrainingRecord:
        """Return the record of a finished run, a `train` artifact."""
        manifest = checkpoint.manifest
        figures = held_out_figures(checkpoint)
        return cls(manifest.counters["steps"], manifest.code_version, figures, manifest.wall_seconds, curves=True)


def write_model_card(
    name: str,
    licence: str | None,
    spec: RunSpec,
    record: TrainingRecord,
    sources: Sequence[Artifact],
    store: ArtifactStore,
) -> str:
    """Return the card as Markdown with the front matter that model hubs read; `sources` is what it was trained on."""
    stages = list(lineage(sources, store))
    templated = any(artifact.stage == "render_articles" for artifact in stages)
    front = ["language: zh", "library_name: transformers", f"tags: [biomedical, {_exported(spec).model_type}, chinese]"]
    front += [f"license: {licence}"] if licence else []
    sections = [
        ["---", *front, "---", f"# {name}", "", *_what(spec)],
        ["## Data", "", TEMPLATED if templated else "Text given by the user.", "", *_stage_table(stages)],
        ["## Training", "", *_settings(spec, record)],
        ["## Held-out text", "", *_results(record.figures), *(["", "![curves](curves.png)"] if record.curves else [])],
        ["## Limits", "", *_limits(templated)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def lineage(artifacts: Sequence[Artifact], store: ArtifactStore) -> Iterator[Artifact]:
    """Yield the artifacts that `artifacts` were made from, sources first, and then these; each once."""
    seen: dict[str, Artifact] = {}

    def visit(one: Artifact) -> None:
        for given in one.manifest.inputs.values():
            source = store.get(given.stage, given.fingerprint)
            if source is not None and source.fingerprint not in seen:
                visit(source)
        seen[one.fingerprint] = one

    for artifact in artifacts:
        visit(artifact)
    yield from seen.values()


def _what(spec: RunSpec) -> list[str]:
    start = "from scratch" if spec.init_from is None else f"from the weights of `{Path(spec.init_from).name}`"
    return [
        f"Encoder pre-trained {start} with the objective `{spec.objective}` of Yiwen (医文); an "
        f"`{_exported(spec).architectures[0]}` with {spec.model.get('num_layers', 12)} layers of "
        f"{spec.model.get('hidden_size', 768)} and {spec.model['vocab_size']:,} tokens.",
        "",
        "```python",
        "from transformers import AutoModel, AutoTokenizer",
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")',
        'model = AutoModel.from_pretrained("path/to/this/folder")',
        "```",
        *(_FORMS if KNOWLEDGE_MODEL in objectives.describe(spec.objective, spec.model).exports else []),
    ]


def _exported(spec: RunSpec) -> Any:
    """Return transformers' configuration of what the objective exports."""
    return objectives.describe(spec.objective, spec.model).exported().config


def _stage_table(stages: list[Artifact]) -> list[str]:
    rows = ["| stage | result | counters |", "|---|---|---|"]
    for artifact in stages:
        tables = artifact.manifest.tables.items()
        result = ", ".join(f"{table.rows:,} {name}" for name, table in tables)
        counters = ", ".join(f"{name} {count:,}" for name, count in artifact.manifest.counters.items())
        rows.append(f"| {artifact.stage} | {result} | {counters} |")
    return rows


def _settings(spec: RunSpec, record: TrainingRecord) -> list[str]:
    device = "GPU" if spec.gpu else "CPU" if spec.cpus_per_worker is None else f"{spec.cpus_per_worker} CPU cores"
    workers = spec.workers if isinstance(spec.workers, int) else f"{spec.workers[0]} to {spec.workers[1]}"
    part = "" if record.step == spec.config.steps else f" of {spec.config.steps:,}, an intermediate state,"
    took = "" if record.seconds is None else f" in {record.seconds / 3600:.2f} hours"
    return [
        f"{record.step:,} steps{part} of {spec.batch} on {workers} × {device}{took}, "
        f"with version {record.code_version}.",
        "",
        "```json",
        json.dumps({"model": spec.model, "training": spec.training}, indent=1),
        "```",
    ]


def _results(figures: Mapping[str, float]) -> list[str]:
    if not figures:
        return ["Not evaluated yet."]
    rows = ["| figure | value | chance |", "|---|---|---|"]
    for name in sorted(figures):
        if not name.endswith(CHANCE):
            chance = figures.get(chance_of(name) or "")
            rows.append(
                f"| {name.replace('_', ' ')} | {figures[name]:.4f} | {'' if chance is None else f'{chance:.4f}'} |"
            )
    return rows


def held_out_figures(checkpoint: Artifact) -> dict[str, float]:
    """Return the figures of the last evaluation of a `train` artifact."""
    table = checkpoint.to_table("metrics")
    held_out = table.filter(pc.field("split") == "held_out").to_pylist()
    last = max(row["step"] for row in held_out)
    return {row["name"]: row["value"] for row in held_out if row["step"] == last}


def _limits(templated: bool) -> list[str]:
    limits = [
        "- Not a medical device: its output is not advice, and no clinician has checked it.",
        "- It has the biases and errors of its sources. Most identifiers of persons in records and dialogues were "
        "replaced, but not all.",
    ]
    if templated:
        limits.append("- Trained on templated text only: expect little on natural text.")
    return limits
