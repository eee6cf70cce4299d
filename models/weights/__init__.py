"""Weights in transformers' layout: reading and converting."""
