"""Files of diagnoses: normalised tables, and the review of what is not sure."""

from tasks.normalise.files.normalised import ADDED, SHOWN, Summary, normalise_file, open_normaliser
from tasks.normalise.files.review import HEADER, Review
from tasks.normalise.files.tables import NAMES, check_target, read_table

__all__ = [
    "ADDED",
    "HEADER",
    "NAMES",
    "SHOWN",
    "Review",
    "Summary",
    "check_target",
    "normalise_file",
    "open_normaliser",
    "read_table",
]
