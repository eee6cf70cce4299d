"""Inputs of stages that another machine can open again, as the jobs of a cluster do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self


class DescribedInput(ABC):
    """Input of a stage that can be opened again, in another process or machine, from a description in JSON.

    The description names places, such as a folder, never content and no secret. Whoever opens it compares the
    fingerprints: another machine may have other files there.
    """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what `reopen` needs, by name: text, numbers, and lists and mappings of them."""

    @classmethod
    def reopen(cls, described: Mapping[str, Any]) -> Self:
        """Return the input that was described; by default by the constructor, whose arguments are described."""
        return cls(**described)
