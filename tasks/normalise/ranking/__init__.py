"""Ranking of candidates: pairs, the classifier of pairs, its trials, and the decision."""
