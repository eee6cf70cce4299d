"""Candidate retrieval: two engines behind one protocol."""

from typing import Any

from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry


def __getattr__(name: str) -> Any:
    from tasks.retrieve import candidates

    return getattr(candidates, name)


__all__ = ["Candidate", "CandidateIndex", "Entry"]
