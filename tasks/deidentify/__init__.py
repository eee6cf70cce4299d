"""Identifiers of persons in clinical text, replaced by typed placeholders."""

from tasks.deidentify.treatment import deidentify

__all__ = ["deidentify"]
