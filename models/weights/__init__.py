"""Weights in transformers' layout: reading and conversion."""
