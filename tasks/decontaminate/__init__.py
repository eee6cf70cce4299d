"""Overlaps of the corpus with test sets, which are cut out."""
