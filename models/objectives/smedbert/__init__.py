"""SMedBERT: BERT with knowledge of the neighbours of what its text mentions."""
