"""Results of flows as objects: an artifact, what it was made of, its page, and the figures that a person asks for.

All of it is read from the store when it is asked for. A result can be given wherever a flow or a tool wants its folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from infra.artifacts import Artifact, ArtifactStore
from infra.console.displayed import heading, paragraph, plain_table, shown_path, table
from infra.counted import counted
from infra.errors import UserError
from infra.uses import use

Rows = list[tuple[object, ...]]


class Result:
    """An artifact that a flow made."""

    PAGE_BY = ""
    """Stage that writes its page; empty if it has one itself, or none."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    @classmethod
    def at(cls, folder: str) -> Self:
        """Return the result in the folder of an artifact."""
        return cls(artifact_at(folder))

    @property
    def path(self) -> Path | str:
        """Its folder: a `Path` on a local disk, a URI elsewhere."""
        return self.artifact.path

    def __fspath__(self) -> str:
        return str(self.path)

    @cached_property
    def store(self) -> ArtifactStore:
        """The store that it is in."""
        return ArtifactStore(self.artifact.store_root)

    @cached_property
    def page(self) -> Path | str | None:
        """Its HTML page; None if it has none."""
        made = self._pages() if self.PAGE_BY else [self.artifact]
        having = [one for one in made if any(file.path == "report.html" for file in one.manifest.files)]
        if not having:
            return None
        folder = having[-1].path
        return folder / "report.html" if isinstance(folder, Path) else f"{folder}/report.html"

    @cached_property
    def stages(self) -> list[Artifact]:
        """The artifacts that it was made from, sources first, and itself."""
        from tasks.pretrain.model_card import lineage

        return list(lineage([self.artifact], self.store))

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return str(self.artifact)

    def _pages(self) -> list[Artifact]:
        """Return the artifacts with a page about this one, the newest last."""
        own = self.artifact.fingerprint
        return [
            one
            for one in self.store.list(self.PAGE_BY)
            if any(given.fingerprint == own for given in one.manifest.inputs.values())
        ]

    def _table(self) -> tuple[Sequence[str], Rows]:
        """Return the columns and rows that are shown."""
        return ("stage", "result", "dropped", "seconds"), [_stage_row(one) for one in self.stages]

    def _places(self) -> list[str]:
        return [f"Folder: {shown_path(self.path)}", *([f"Page: {shown_path(self.page)}"] if self.page else [])]

    def __repr__(self) -> str:
        return "\n".join([self.title, plain_table(*self._table()), *self._places()])

    def _repr_html_(self) -> str:
        return "".join([heading(self.title), table(*self._table()), *map(paragraph, self._places())])


class Corpus(Result):
    """Segments of a corpus, and the stages that its text went through."""

    PAGE_BY = "report_corpus"

    @property
    def title(self) -> str:
        """Number of segments and documents."""
        documents = [one for one in self.stages if "documents" in one.manifest.tables]
        kept = documents[-1].rows("documents") if documents else 0
        return f"{counted(self.artifact.rows('segments'), 'segments')} of {counted(kept, 'documents')}"

    def scan(self) -> pl.LazyFrame:
        """Return the segments as a lazy frame of polars."""
        return self.artifact.scan("segments")


class Model(Result):
    """An exported encoder with the figures of its training; its folder is what transformers loads."""

    @cached_property
    def training(self) -> Artifact | None:
        """The run that trained it; None if the store no longer has it."""
        given = self.artifact.manifest.inputs["checkpoint"]
        return self.store.get(given.stage, given.fingerprint)

    @property
    def page(self) -> Path | str | None:
        """The page with its curves."""
        return None if self.training is None else Result(self.training).page

    @cached_property
    def figures(self) -> dict[str, float]:
        """Figures of the last evaluation on held-out text, by name."""
        from tasks.pretrain.model_card import held_out_figures

        return {} if self.training is None else held_out_figures(self.training)

    @property
    def card(self) -> str:
        """The model card, as Markdown."""
        return self.artifact.read_file("README.md").decode()

    @property
    def title(self) -> str:
        """Objective and steps."""
        if self.training is None:
            return "An exported encoder"
        made = self.training.manifest
        return f"Encoder pre-trained with {made.params['objective']}, {made.counters['steps']:,} steps"

    def _table(self) -> tuple[Sequence[str], Rows]:
        from tasks.training.terms import CHANCE, chance_of

        own = self.figures
        rows: Rows = [
            (name.replace("_", " "), own[name], own.get(chance_of(name, own) or ""))
            for name in sorted(own)
            if not name.endswith(CHANCE)
        ]
        return ("figure on held-out text", "value", "chance"), rows


class Graph(Result):
    """A fused graph of knowledge."""

    PAGE_BY = "report_graph"

    @cached_property
    def graph(self) -> Any:
        """The graph, as `yiwen.KnowledgeGraph`, in memory."""
        from kg.graph import KnowledgeGraph

        return KnowledgeGraph.from_tables(self.artifact.to_table("kg_entities"), self.artifact.to_table("kg_triples"))

    @cached_property
    def linker(self) -> Any:
        """The linker of its names, as `yiwen.EntityLinker`."""
        from tasks.knowledge.link import entity_linker

        return entity_linker(self.artifact, {})

    @property
    def title(self) -> str:
        """Number of entities and triples."""
        return f"{self.artifact.rows('kg_entities'):,} entities, {self.artifact.rows('kg_triples'):,} triples"


class TermIndex(Result):
    """A list of terms that can be searched, or a normaliser over one."""

    @property
    def title(self) -> str:
        """Number of terms."""
        listed = [one for one in self.stages if one.stage == "terminology"]
        return f"{listed[-1].rows():,} terms, ready to be searched" if listed else str(self.artifact)


_SCORE_COLUMNS = ("task", "split", "metric", "score", "from", "to")


class Scores:
    """Scores of a fine-tuned model on a task, or of one encoder on several, with their intervals.

    It can be given wherever the folder of the model is wanted, such as to `yiwen.Predictor`.
    """

    def __init__(self, result: Result) -> None:
        self._result = result

    @classmethod
    def at(cls, folder: str) -> Scores:
        """Return the scores of a folder that the flow returned: the model of one task, or the table of several."""
        path = folder.removesuffix("/model")
        return cls(Result.at(path))

    @property
    def artifact(self) -> Artifact:
        """Artifact of the run, or of the table of several."""
        return self._result.artifact

    @property
    def is_suite(self) -> bool:
        """True for the table of several tasks."""
        return self.artifact.stage == "report_suite"

    @property
    def model(self) -> Path | str:
        """Folder of the best model. Raises `UserError` for the table of several tasks: see `runs`."""
        if self.is_suite:
            raise UserError(f"These are scores of several tasks. Choose one: .runs[…] has {', '.join(self.runs)}.")
        folder = self.artifact.path
        return folder / "model" if isinstance(folder, Path) else f"{folder}/model"

    @cached_property
    def runs(self) -> dict[str, Scores]:
        """Scores by task; of a single task, only its own."""
        if not self.is_suite:
            return {str(self.artifact.manifest.params["task"]): self}
        store = self._result.store
        given = {name: store.get(one.stage, one.fingerprint) for name, one in self.artifact.manifest.inputs.items()}
        return {name: Scores(Result(run)) for name, run in given.items() if run is not None}

    @cached_property
    def table(self) -> pl.DataFrame:
        """A row per task, split and metric: `task`, `split`, `metric`, `main`, `value`, `low`, `high`.

        `main` is true for the metric of the task; `low` and `high` are the ends of its 95 % bootstrap interval.
        """
        columns = ("task", "split", "metric", "main", "value", "low", "high")
        if self.is_suite:
            rows = json.loads(self.artifact.read_file("summary.json"))["scores"]
            return pl.DataFrame([{name: row[name] for name in columns} for row in rows])
        best = self.artifact.scan("scores").filter((pl.col("of") == "best run") & pl.col("low").is_not_null())
        return best.select(columns).collect()

    @property
    def page(self) -> Path | str | None:
        """The page with its mistakes, or with the table of several tasks."""
        if self.is_suite:
            return self._result.page
        of_run = type("_Run", (Result,), {"PAGE_BY": "report_finetune"})
        found: Path | str | None = of_run(self.artifact).page
        return found

    def __fspath__(self) -> str:
        return str(self.model)

    def __repr__(self) -> str:
        return "\n".join([self._title, plain_table(_SCORE_COLUMNS, self._rows()), *self._places()])

    def _repr_html_(self) -> str:
        return "".join([heading(self._title), table(_SCORE_COLUMNS, self._rows()), *map(paragraph, self._places())])

    @property
    def _title(self) -> str:
        return "Scores of the best run, with their 95 % intervals"

    def _rows(self) -> Rows:
        from tasks.downstream.evaluation import score_text

        return [
            (row["task"], row["split"], row["metric"] + (" (the task's)" if row["main"] else ""),
             *(score_text(row["metric"], row[name]) for name in ("value", "low", "high")))
            for row in self.table.to_dicts()
        ]  # fmt: skip

    def _places(self) -> list[str]:
        places = [] if self.is_suite else [f"Model: {shown_path(self.model)}"]
        return [*places, *([f"Page: {shown_path(self.page)}"] if self.page else [])]


def artifact_at(folder: str) -> Artifact:
    """Return the artifact in a folder or at a URI; `gc` keeps it until this process ends.

    Raises:
        UserError: the folder contains no artifact.
    """
    root, stage, fingerprint = folder.rstrip("/").rsplit("/", 2)
    found = ArtifactStore(root).get(stage, fingerprint)
    if found is None:
        raise UserError(f"{folder} is not the folder of an artifact. Give one that a flow returned.")
    use(folder)
    return found


def _stage_row(artifact: Artifact) -> tuple[object, ...]:
    made = artifact.manifest
    result = ", ".join(f"{one.rows:,} {name}" for name, one in made.tables.items() if name != "rejects")
    dropped = ", ".join(
        f"{count:,} {name.removeprefix('rejected_').replace('_', ' ')}"
        for name, count in made.counters.items()
        if name.startswith("rejected_") and count
    )
    return made.stage, result or counted(len(made.files), "files"), dropped, f"{made.wall_seconds:.1f}"
