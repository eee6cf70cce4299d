"""Models: `pretrain` and `finetune`, which are the flows of these names."""

from __future__ import annotations

from flows.api.calls import runs
from flows.api.results import Model, Scores
from flows.finetune import finetune as finetune_flow
from flows.pretrain import pretrain as pretrain_flow


@runs(pretrain_flow.fn)
def pretrain(folder: str) -> Model:
    """Turn raw text into a pre-trained encoder; every stage that was done before is reused.

    If it is interrupted, the same call resumes, at the last checkpoint of the training. Returns the model with the
    figures of its training; give it to `finetune`, or to `AutoModel.from_pretrained`.
    """
    return Model.at(folder)


@runs(finetune_flow.fn)
def finetune(folder: str) -> Scores:
    """Fine-tune an encoder on a task, several, or a suite of them; what was done before is reused.

    If it is interrupted, the same call resumes, after the last whole epoch of a trial. Returns the scores; give them to
    `Predictor`.
    """
    return Scores.at(folder)
