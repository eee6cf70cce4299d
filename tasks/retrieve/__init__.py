"""Candidate retrieval: two search engines behind one protocol. Knows names and codes, but no diagnosis."""

from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.server_index import ElasticsearchIndex

__all__ = ["Candidate", "CandidateIndex", "ElasticsearchIndex", "EmbeddedIndex", "Entry"]
