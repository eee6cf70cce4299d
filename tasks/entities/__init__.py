"""Stages `entities` and `entity_counts`: the entity vocabulary of a corpus and its graphs."""
