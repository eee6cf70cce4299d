"""Personalised entity PageRank: the best neighbours of every entity (SMedBERT, section 3.2)."""

from kg.pepr.ranking import rank_neighbours

__all__ = ["rank_neighbours"]
