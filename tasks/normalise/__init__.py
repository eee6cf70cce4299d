"""Stages of the term normaliser: terminologies, indexes, rankers, decisions."""
