"""The card of a fine-tuned model: what it answers, how well, how it was trained, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.downstream.evaluation import score_text
from tasks.downstream.records import Kind
from tasks.downstream.scoring import Scored
from tasks.downstream.spec import TaskSpec
from tasks.finetune.trials.result import TrialResult
from tasks.training.front_matter import Measured, with_front_matter

_FOLDER = "path/to/this/folder"
_CLASSIFIER = f'pipeline("text-classification", model="{_FOLDER}")'
_PAIR = f'{_CLASSIFIER}({{"text": "…", "text_pair": "…"}})'
_USES: Mapping[Kind, tuple[str, str]] = {
    Kind.SINGLE: ("pipeline", f'{_CLASSIFIER}("…")'),
    Kind.PAIR: ("pipeline", _PAIR),
    Kind.RANKING: ("pipeline", _PAIR),
    Kind.MULTI_LABEL: ("pipeline", f'{_CLASSIFIER}("…", top_k=None)'),
    Kind.TAGGING: (
        "pipeline",
        f'pipeline("token-classification", model="{_FOLDER}", aggregation_strategy="simple")("…")',
    ),
    Kind.CHOICE: ("AutoModelForMultipleChoice", f'AutoModelForMultipleChoice.from_pretrained("{_FOLDER}")'),
}
"""What to import from transformers, and a call of it, for kinds of tasks that it has a class for."""


_PIPELINES = {kind: "text-classification" for kind in (Kind.SINGLE, Kind.PAIR, Kind.RANKING, Kind.MULTI_LABEL)} | {
    Kind.TAGGING: "token-classification",
    Kind.CHOICE: "multiple-choice",
}
"""Task of a hub's list, by kind."""


def write_finetune_card(
    spec: TaskSpec,
    best: TrialResult,
    scores: Mapping[str, Scored],
    encoder: str,
    transformers_class: str | None = None,
    graph: tuple[str, str] | None = None,
    records: Mapping[str, int] | None = None,
    origin: str | None = None,
) -> str:
    """Return the card as Markdown with the front matter that model hubs read.

    Args:
        scores: scores by split, of the splits with known answers.
        encoder: name of the encoder's folder, or of what a network reads.
        transformers_class: class of transformers that loads the model; None if there is none.
        graph: stage and fingerprint of the graph whose entities the model reads; None if it reads none.
        records: number of records by split.
        origin: id and revision of the encoder on the hub, if it is from there.
    """
    trial = best.trial
    dropout = "" if trial.dropout is None else f"dropout {trial.dropout:g}, "
    start = "the architecture of" if trial.random_weights else "the encoder"
    made = f"fine-tuned by Yiwen (医文) from {start} `{encoder}`"
    if trial.contest:  # the name of a network, such as bilstm_crf
        made = f"a network `{trial.contest}` over `{encoder}`, trained by Yiwen (医文)"
    rows = [
        f"| {split} | {name} | {score_text(name, interval.score)} | "
        f"{score_text(name, interval.low)} to {score_text(name, interval.high)} |"
        for split, scored in scores.items()
        for name, interval in scored.scores.items()
    ]
    sections = [
        [f"# {spec.title}"],
        [f"Answers {spec.title} ({spec.kind}), {made}."],
        [
            "```python",
            "from tasks.finetune.predict import Predictor",
            f'Predictor("{_FOLDER}").predict([…])',
            "```",
        ],
        _with_transformers(spec, transformers_class),
        *([] if graph is None else [_with_knowledge(graph)]),
        ["| split | metric | score | 95 % interval |", "|---|---|---|---|", *rows],
        [
            f"Batch size {trial.batch_size}, learning rate {trial.learning_rate:g}, {trial.epochs} epochs (the best "
            f"after {best.epoch:g}), {dropout}seed {trial.seed}; chosen by the dev score."
        ],
        ["## Data", "", *_data(spec, records or {})],
        ["## Licence", "", "That of the encoder and of the task's files, which were given; none is granted here."],
        ["## Limits", "", "Not a medical device: its output is not advice, and no clinician has checked it."],
    ]
    return with_front_matter(
        "\n\n".join("\n".join(lines) for lines in sections) + "\n",
        name=f"{spec.name} from {encoder}",
        tags=["biomedical", "chinese"],
        library="yiwen" if transformers_class is None else "transformers",
        pipeline=None if transformers_class is None else _PIPELINES.get(spec.kind),
        base_model=None if origin is None else origin.partition("@")[0],
        data=(spec.name, spec.title),
        measured=[
            Measured(split, name, interval.score)
            for split, scored in scores.items()
            for name, interval in scored.scores.items()
        ],
    )


def _data(spec: TaskSpec, records: Mapping[str, int]) -> list[str]:
    counts = ", ".join(f"{count:,} of {split}" for split, count in records.items())
    return [
        f"The files of {spec.title}{f': {counts}' if counts else ''}. Their texts were read as they are; identifiers",
        "of persons in them were not looked for.",
    ]


def _with_knowledge(graph: tuple[str, str]) -> list[str]:
    """Return what the model needs beside its folder, and how it finds that."""
    return [
        f"It reads knowledge of the entities of `{'/'.join(graph)}` that a text names. `names.parquet` has their",
        "names. Their neighbours are in the knowledge arrays that `encoder/config.json` names in `knowledge_source`,",
        "which are not copied. They are looked for there, in `encoder/knowledge`, and in the artifact store around the",
        "folder. Elsewhere give them: `Predictor(…, knowledge=FOLDER)`, or `predict --knowledge FOLDER`.",
    ]


def _with_transformers(spec: TaskSpec, transformers_class: str | None) -> list[str]:
    """Return what transformers does with the folder."""
    if transformers_class is None:
        return [
            "transformers has no class for this head and refuses the folder by its `model_type`. What it reads, an",
            "encoder or a table of vectors, is in `encoder/`.",
        ]
    name, call = _USES[spec.kind]
    text = [
        f"transformers loads it as `{transformers_class}`, with the same logits; the encoder alone with `AutoModel`.",
        "",
        "```python",
        f"from transformers import {name}",
        call,
        "```",
    ]
    if spec.kind is Kind.TAGGING:
        text += [
            "",
            "Its pipelines cut English words and numbers into word pieces, and long texts off; `Predictor` tags every",
            "character by itself, in windows. They know no tags E and S, which are named I and B here.",
        ]
    return text
