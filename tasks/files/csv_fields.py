"""How long a field of a CSV file may be.

Python's csv module has one limit for the whole process, 128 KiB; a document, or all that follows a lost quote, is
longer. It is set in this one place, so that what a reader does never depends on which other readers are loaded.
"""

import csv

MOST_CHARACTERS = 2**31 - 1


def allow_long_fields() -> None:
    """Let every reader of this process take fields of up to `MOST_CHARACTERS`."""
    csv.field_size_limit(MOST_CHARACTERS)
