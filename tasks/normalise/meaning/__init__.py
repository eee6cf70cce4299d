"""Meaning of names: an encoder trained on synonyms, and vectors that find names without shared characters."""
