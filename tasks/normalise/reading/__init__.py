"""Reading of a diagnosis: what it states, denies, doubts or does not diagnose, and which candidates have its sense."""

from tasks.normalise.reading.complications import COMPLICATIONS, Complications, read_complications
from tasks.normalise.reading.cues import CUES, Cue, Status, cues_for, read_cues
from tasks.normalise.reading.details import COURSE, DETAILS, SAME_CATEGORY, Details, read_details
from tasks.normalise.reading.modifiers import MODIFIERS, Modifier, Modifiers, modifiers_for, read_modifiers
from tasks.normalise.reading.senses import CONTEXTS, CONTRADICTIONS, Sense, SenseIndex, read_senses
from tasks.normalise.reading.statements import Reader, Statement
from tasks.normalise.reading.tumours import SITES, Site, Tumours, read_sites
from tasks.normalise.reading.wordings import WORDINGS, Wordings, read_wordings
from tasks.normalise.reading.written_codes import WrittenCodes, category

__all__ = [
    "COMPLICATIONS",
    "CONTEXTS",
    "CONTRADICTIONS",
    "COURSE",
    "CUES",
    "DETAILS",
    "MODIFIERS",
    "SAME_CATEGORY",
    "SITES",
    "WORDINGS",
    "Complications",
    "Cue",
    "Details",
    "Modifier",
    "Modifiers",
    "Reader",
    "Sense",
    "SenseIndex",
    "Site",
    "Statement",
    "Status",
    "Tumours",
    "Wordings",
    "WrittenCodes",
    "category",
    "cues_for",
    "modifiers_for",
    "read_complications",
    "read_cues",
    "read_details",
    "read_modifiers",
    "read_senses",
    "read_sites",
    "read_wordings",
]
