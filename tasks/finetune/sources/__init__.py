"""What networks read instead of a trained encoder: bare embeddings, word vectors, and a frozen encoder's states."""
