"""Layers that several networks share, over packed sequences."""
