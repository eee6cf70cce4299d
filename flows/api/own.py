"""Tasks on your own files: `own.classify`, `.pairs`, `.tag` and `.rank`, which are the deployments `finetune/…`."""

from __future__ import annotations

from flows.api.calls import runs
from flows.api.results import Scores
from flows.own_classify import finetune as classify_flow
from flows.own_pairs import finetune as pairs_flow
from flows.own_rank import finetune as rank_flow
from flows.own_tag import finetune as tag_flow


@runs(classify_flow.fn)
def classify(folder: str) -> Scores:
    """Fine-tune an encoder to label the texts of a table, each with one label or with several.

    If it is interrupted, the same call resumes. Returns the scores; give them to `Predictor`.
    """
    return Scores.at(folder)


@runs(pairs_flow.fn)
def pairs(folder: str) -> Scores:
    """Fine-tune an encoder to label the pairs of texts of a table.

    If it is interrupted, the same call resumes. Returns the scores; give them to `Predictor`.
    """
    return Scores.at(folder)


@runs(tag_flow.fn)
def tag(folder: str) -> Scores:
    """Fine-tune an encoder to find the entities in the texts of a table.

    If it is interrupted, the same call resumes. Returns the scores; give them to `Predictor`.
    """
    return Scores.at(folder)


@runs(rank_flow.fn)
def rank(folder: str) -> Scores:
    """Fine-tune an encoder to order the candidates of each query of a table.

    If it is interrupted, the same call resumes. Returns the scores; give them to `Predictor`.
    """
    return Scores.at(folder)
