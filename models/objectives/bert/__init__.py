"""BERT: masked language modelling, with sentence pairs or without."""
