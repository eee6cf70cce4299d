"""Ids of the special tokens, which come first in every vocabulary."""

PAD, UNK, CLS, SEP, MASK = range(5)
NUM_SPECIAL = 5
"""Number of special ids, [PAD] [UNK] [CLS] [SEP] [MASK], which are never masked nor drawn as a replacement."""
