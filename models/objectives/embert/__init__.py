"""EMBERT: BERT with three objectives about entities."""
