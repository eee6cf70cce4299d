"""The embedding of a graph as long work: its `run.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from infra.place import module_name
from tasks.training.cluster import Cluster
from tasks.training.launch import LongWork, Progress


class EmbeddingRun(LongWork):
    """One training, resolved: everything that its workers need to know."""

    kind: ClassVar[str] = "kg_embeddings"
    module: ClassVar[str] = module_name("tasks/knowledge/embed_driver.py")

    entity_dim: int
    relation_dim: int
    transe: dict[str, Any] | None
    """Settings of `EmbeddingConfig`; None: begin with random vectors."""
    transr: dict[str, Any]
    cluster: Cluster

    @property
    def unit(self) -> str:
        return "epoch"

    @property
    def total(self) -> int:
        return self.transe_epochs + int(self.transr["epochs"])

    @property
    def transe_epochs(self) -> int:
        """Most epochs of TransE. TransR's are counted after them, even if TransE stopped early."""
        return int(self.transe["epochs"]) if self.transe else 0

    @property
    def resources(self) -> Cluster:
        """Settings of the cluster with one core per worker, if not set otherwise, and always the most workers."""
        return self.cluster.model_copy(
            update={
                "workers": self.cluster.most_workers,
                "cpus_per_worker": self.cluster.cpus_per_worker or 1,
            }
        )

    def path(self, name: str) -> str:
        """Return the path or URI of a file of the run."""
        return f"{self.storage}/{name}"

    def progress(self, entries: Sequence[Mapping[str, Any]]) -> Progress | None:
        """Return the newest epoch with its figures: `transr_loss 0.412, transr_triples_per_second 81,000`."""
        if not entries:
            return None
        note = ", ".join(f"{name} {value:,.4g}" for name, value in entries[-1]["figures"].items())
        return Progress(entries[-1]["step"], note)
