"""Limits of the solution in memory, which settings have as defaults. Nothing here imports torch."""

MAX_DENSE = 50_000
"""Rows of the largest core that is inverted densely: 4 n² bytes (10 GB) and n³ operations in double precision."""
