"""Stages `sketches`, `candidates`, `near` and `deduplicate`: one of equal and nearly equal documents."""

from tasks.deduplicate.in_memory import near_duplicates
from tasks.deduplicate.stage import DeduplicateParams, deduplicate

__all__ = ["DeduplicateParams", "deduplicate", "near_duplicates"]
