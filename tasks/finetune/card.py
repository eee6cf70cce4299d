"""The card of a fine-tuned model: what it answers, how well, how it was trained, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.downstream.evaluation import score_text
from tasks.downstream.scoring import Scored
from tasks.downstream.spec import TaskSpec
from tasks.finetune.result import TrialResult


def write_finetune_card(spec: TaskSpec, best: TrialResult, scores: Mapping[str, Scored], encoder: str) -> str:
    """Return the card as Markdown with the front matter that model hubs read.

    Args:
        scores: scores by split, of the splits with known answers.
        encoder: name of the encoder's folder.
    """
    trial = best.trial
    dropout = "" if trial.dropout is None else f"dropout {trial.dropout:g}, "
    start = "the architecture of" if trial.random_weights else "the encoder"
    rows = [
        f"| {split} | {name} | {score_text(name, interval.score)} | "
        f"{score_text(name, interval.low)} to {score_text(name, interval.high)} |"
        for split, scored in scores.items()
        for name, interval in scored.scores.items()
    ]
    sections = [
        ["---", "language: zh", "library_name: yiwen", "tags: [biomedical, chinese]", "---", f"# {spec.title}"],
        [f"Answers {spec.title} ({spec.kind}), fine-tuned by Yiwen (医文) from {start} `{encoder}`."],
        [
            "```python",
            "from tasks.finetune.predict import Predictor",
            'Predictor("path/to/this/folder").predict([…])',
            "```",
        ],
        ["The encoder alone loads with `AutoModel.from_pretrained`."],
        ["| split | metric | score | 95 % interval |", "|---|---|---|---|", *rows],
        [
            f"Batch size {trial.batch_size}, learning rate {trial.learning_rate:g}, {trial.epochs} epochs (the best "
            f"after {best.epoch:g}), {dropout}seed {trial.seed}; chosen by the dev score."
        ],
        ["Not a medical device: its output is not advice, and no clinician has checked it."],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"
