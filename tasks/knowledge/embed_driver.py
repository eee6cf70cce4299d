"""The embedding's program: `python -m tasks.knowledge.embed_driver run.json`. No Prefect in it.

The stage `kg_embeddings` starts it where several workers or a cluster train. A run that was killed resumes at its last
checkpoint, in the run's storage.
"""

from __future__ import annotations

import sys

from tasks.knowledge.embed_run import EmbeddingRun
from tasks.training.launch.program import run_program


def main(arguments: list[str] | None = None) -> int:
    """Run the command line of the program; returns the exit status."""
    return run_program(EmbeddingRun, run, __doc__, arguments)


def run(work: EmbeddingRun) -> None:
    """Train to the end, in this process or on Ray's workers; the first worker writes `result.json`.

    Raises:
        UserError: the workers find no room, or the storage is full.
        FloatingPointError: the loss became NaN or infinite.
    """
    # What Ray's workers call must not be in `__main__`, which is this module: they could not import it.
    from tasks.knowledge.embed_worker import train_here, train_worker

    if work.cluster.most_workers <= 1:
        train_here(work)
        return
    from tasks.training.ray_train import fit, placed  # takes seconds, which one worker can do without

    with placed(work.resources) as placement:
        fit(train_worker, work, work.resources, placement)


if __name__ == "__main__":
    sys.exit(main())
