"""Answers to diagnoses: what they say, how sure they are, and the user's own names."""

from tasks.normalise.answers.answer import EMPTY, NOT_FOUND, REVIEW, Answer, Normalised
from tasks.normalise.answers.confidence import CONFIDENCE, SIGNS, Calibration, read_calibration, signs_of
from tasks.normalise.answers.dagger_pairs import PAIRS, DaggerPairs, Pair, PairRow, read_pairs
from tasks.normalise.answers.own_names import (
    USER,
    OwnNames,
    load_own_names,
    read_own_names,
    save_own_names,
)
from tasks.normalise.answers.threshold import THRESHOLD, checked_threshold, load_threshold, save_threshold

__all__ = [
    "CONFIDENCE",
    "EMPTY",
    "NOT_FOUND",
    "PAIRS",
    "REVIEW",
    "SIGNS",
    "THRESHOLD",
    "USER",
    "Answer",
    "Calibration",
    "DaggerPairs",
    "Normalised",
    "OwnNames",
    "Pair",
    "PairRow",
    "checked_threshold",
    "load_own_names",
    "load_threshold",
    "read_calibration",
    "read_own_names",
    "read_pairs",
    "save_own_names",
    "save_threshold",
    "signs_of",
]
