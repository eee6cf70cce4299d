"""Types of identifiers that regulations name and that only some profiles treat."""

from __future__ import annotations

from tasks.deidentify.identifier import IdentifierType

REGULATED_TYPES: tuple[IdentifierType, ...] = ()
"""Types that some profiles treat, in the order of `tasks/deidentify/identifier_types.py`."""
