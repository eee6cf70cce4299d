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
from models.training.config import COSTS
from tasks.files.hub import origin_of
from tasks.training.front_matter import Measured, with_front_matter
from tasks.training.launch.follow import rough_duration
from tasks.training.run_spec import RunSpec
from tasks.training.terms import CHANCE, COUNT, chance_of

TEMPLATED = (
    "**The text is templated**: real facts of the knowledge graph CMeKG (package PyCMeKG, MIT licence) put into "
    "plain sentence templates. It is not natural text. A model trained on it shows that the pipeline works, but is not "
    "meant for use on patients' or doctors' language."
)


_REPLACED = "replaced_"
"""Beginning of the counters of `deidentify` for each kind of identifier."""

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
    form: str | None = None,
    knowledge: str | None = None,
) -> str:
    """Return the card as Markdown with the front matter that model hubs read.

    Args:
        sources: what it was trained on.
        form: one of the objective's `exports`; by default the encoder alone.
        knowledge: what there is to say of the model with knowledge, if the card is that of its folder.
    """
    stages = list(lineage(sources, store))
    templated = any(artifact.stage == "render_articles" for artifact in stages)
    config = _exported(spec, form)
    # transformers' pipelines tell no model of mentions.
    pipeline = _pipeline(config.architectures[0]) if knowledge is None else None
    kind = [config.model_type] if knowledge is None else [spec.objective, "knowledge-graph"]
    begun = origin_of(spec.init_from) if spec.init_from is not None else None
    data = TEMPLATED if templated else "Text given by the user."
    curves = "curves.png" if knowledge is None else "../curves.png"
    sections = [
        [f"# {name}", "", *_what(spec, form)] if knowledge is None else [f"# {name}, with knowledge", "", knowledge],
        ["## Data", "", data, "", *_treatment(stages), *_stage_table(stages)],
        ["## Training", "", *_settings(spec, record)],
        ["## Held-out text", "", *_results(record.figures), *(["", f"![curves]({curves})"] if record.curves else [])],
        ["## Licence", "", licence or "None was set. `--param export.license=NAME` of a pretrain flow sets it."],
        ["## Limits", "", *_limits(templated)],
    ]
    return with_front_matter(
        "\n\n".join("\n".join(lines) for lines in sections) + "\n",
        name=name,
        tags=["biomedical", *kind, "chinese"],
        library="transformers" if knowledge is None else "yiwen",
        pipeline=pipeline,
        licence=licence,
        base_model=begun.id if begun is not None else None,
        data=("held-out", "held-out part of the training text"),
        measured=[Measured("held_out", key, record.figures[key]) for key in _measured(record.figures)],
    )


def _pipeline(architecture: str) -> str | None:
    """Return the pipeline of transformers for a class: `BertForPreTraining` has a masked language model's head."""
    if architecture.endswith("Model"):
        return "feature-extraction"
    masked = architecture.endswith("ForMaskedLM") or architecture == "BertForPreTraining"
    return "fill-mask" if masked else None


def _treatment(stages: Sequence[Artifact]) -> list[str]:
    """Return how persons' identifiers were treated, and how many, in a sentence."""
    done = [one for one in stages if one.stage == "deidentify"]
    if not done:
        return ["Identifiers of persons were not looked for.", ""]
    counters, params = done[-1].manifest.counters, done[-1].manifest.params
    kinds = {name: n for name, n in counters.items() if name.startswith(_REPLACED) and n}
    total = sum(kinds.values())
    named = ", ".join(f"{name.removeprefix(_REPLACED)} {n:,}" for name, n in sorted(kinds.items()))
    return [
        f"De-identified (profile `{params.get('profile', 'minimal')}`): {total:,} identifiers of persons replaced in "
        f"{counters.get('documents_changed', 0):,} of the {counters.get('documents_treated', 0):,} documents of the "
        f"sources {', '.join(params.get('sources', ()))}{f' ({named})' if named else ''}; other documents were not "
        "treated.",
        "",
    ]


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


def _what(spec: RunSpec, form: str | None) -> list[str]:
    begun = None if spec.init_from is None else origin_of(spec.init_from) or Path(spec.init_from).name
    start = "from scratch" if begun is None else f"from the weights of `{begun}`"
    kind = _exported(spec, form).architectures[0]
    task = _pipeline(kind)
    example = '"糖尿病患者出现[MASK]力"' if task == "fill-mask" else '"糖尿病患者出现乏力"'
    return [
        f"Encoder pre-trained {start} with the objective `{spec.objective}` of Yiwen (医文): class "
        f"`{kind}`, {spec.model.get('num_layers', 12)} layers of "
        f"{spec.model.get('hidden_size', 768)} and {spec.model['vocab_size']:,} tokens.",
        "",
        "```python",
        "from transformers import AutoModel, AutoTokenizer, pipeline",
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")',
        'model = AutoModel.from_pretrained("path/to/this/folder")',
        *([f'pipeline("{task}", model="path/to/this/folder")({example})'] if task else []),
        "```",
        *(_FORMS if KNOWLEDGE_MODEL in objectives.describe(spec.objective, spec.model).exports else []),
    ]


def _exported(spec: RunSpec, form: str | None) -> Any:
    """Return transformers' configuration of what the objective exports."""
    return objectives.describe(spec.objective, spec.model).exported(form).config


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
    took = "" if record.seconds is None else f" in {rough_duration(record.seconds)}"
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
    shown = [name for name in _measured(figures) if not name.endswith(CHANCE)]
    chances = {name: figures.get(chance_of(name, figures) or "") for name in shown}
    cells = [["figure", "value"], ["---", "---"]]
    cells += [[name.replace("_", " "), _number(name, figures[name])] for name in shown]
    if any(chance is not None for chance in chances.values()):
        own = ("" if chance is None else f"{chance:.4f}" for chance in chances.values())
        cells = [[*row, last] for row, last in zip(cells, ["chance", "---", *own], strict=True)]
    return [f"| {' | '.join(row)} |" for row in cells]


def _measured(figures: Mapping[str, float]) -> list[str]:
    """Return the names of figures that say what was found, not what was spent."""
    return sorted(name for name in figures if name not in COSTS)


def _number(name: str, value: float) -> str:
    return f"{value:,.0f}" if name.endswith(COUNT) else f"{value:.4f}"


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
