"""Reading of a diagnosis before it is searched: what it states, denies, doubts, or does not diagnose at all."""

from tasks.normalise.reading.cues import CUES, Cue, Status, read_cues
from tasks.normalise.reading.statements import Reader, Statement

__all__ = ["CUES", "Cue", "Reader", "Statement", "Status", "read_cues"]
