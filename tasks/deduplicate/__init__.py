"""Equal and nearly equal texts, of which one stays."""

from tasks.deduplicate.in_memory import near_duplicates

__all__ = ["near_duplicates"]
