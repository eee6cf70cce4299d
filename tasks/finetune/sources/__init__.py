"""Inputs of networks in place of a trained encoder: bare embeddings, word vectors, a frozen encoder's states."""
