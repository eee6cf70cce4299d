"""The front matter of a model card: what hubs index, written by the hub's own library so that it reads it back.

The body is each room's: tasks/pretrain/model_card.py, tasks/finetune/card.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LANGUAGE = "zh"


class Measured(NamedTuple):
    """A figure of the model index."""

    split: str
    metric: str
    value: float


def with_front_matter(
    body: str,
    *,
    name: str,
    tags: Sequence[str],
    library: str,
    pipeline: str | None = None,
    licence: str | None = None,
    base_model: str | None = None,
    data: tuple[str, str] = ("", ""),
    measured: Iterable[Measured] = (),
) -> str:
    """Return a model card.

    Args:
        body: the card below its front matter, as Markdown.
        pipeline: task of transformers' pipelines that answers with the folder, if one does.
        base_model: id on the hub of the model that it was made from.
        data: short name and title of what it was measured on.
        measured: figures; those that are not finite numbers are left out, since YAML has none.
    """
    from huggingface_hub import EvalResult, ModelCard, ModelCardData  # the extra `train`

    results = [
        EvalResult(
            task_type=pipeline or "other",
            dataset_type=data[0],
            dataset_name=data[1],
            dataset_split=one.split,
            metric_type=one.metric,
            metric_name=f"{one.metric.replace('_', ' ')} ({one.split})",
            metric_value=round(one.value, 6),
        )
        for one in measured
        if math.isfinite(one.value)
    ]
    front = ModelCardData(
        language=LANGUAGE,
        license=licence,
        library_name=library,
        pipeline_tag=pipeline,
        tags=list(tags),
        base_model=base_model,
        model_name=name if results else None,
        eval_results=results or None,
    )
    return str(ModelCard(f"---\n{front.to_yaml()}\n---\n\n{body}"))
