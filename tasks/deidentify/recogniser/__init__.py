"""Names of persons, addresses and institutions that no rule finds, recognised by a small trained model."""

from tasks.deidentify.recogniser.tagging import Recogniser, shipped_recogniser

__all__ = ["Recogniser", "shipped_recogniser"]
