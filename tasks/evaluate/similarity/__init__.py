"""Unsupervised similarity of entity names: the sets D1 to D3, and how often models find the equal name (SMedBERT)."""
