"""Personalised entity PageRank: the best neighbours of every entity (SMedBERT, section 3.2).

`rank_neighbours` is imported when it is first used, because it needs torch. Settings read `limits.py` without.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kg.pepr.ranking import rank_neighbours

__all__ = ["rank_neighbours"]


def __getattr__(name: str) -> Any:
    """Import `rank_neighbours` (PEP 562)."""
    if name == "rank_neighbours":
        from kg.pepr.ranking import rank_neighbours

        return rank_neighbours
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
