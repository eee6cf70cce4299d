"""Reading of a diagnosis: what it states, denies, doubts or does not diagnose, and which candidates have its sense."""

from tasks.normalise.reading.cues import CUES, Cue, Status, read_cues
from tasks.normalise.reading.senses import CONTEXTS, CONTRADICTIONS, Sense, SenseIndex, read_senses
from tasks.normalise.reading.statements import Reader, Statement

__all__ = [
    "CONTEXTS",
    "CONTRADICTIONS",
    "CUES",
    "Cue",
    "Reader",
    "Sense",
    "SenseIndex",
    "Statement",
    "Status",
    "read_cues",
    "read_senses",
]
