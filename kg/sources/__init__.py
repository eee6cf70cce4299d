"""Readers of knowledge graphs in all their formats."""
