"""Names of persons, addresses and institutions that no rule finds, recognised by a small trained model."""

from tasks.deidentify.recogniser.tagging import Recogniser, reading_told, shipped_recogniser

__all__ = ["Recogniser", "reading_told", "shipped_recogniser"]
