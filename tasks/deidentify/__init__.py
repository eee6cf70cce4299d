"""Stage `deidentify`: identifiers of persons are replaced by placeholders."""

from tasks.deidentify.stage import DeidentifyParams, deidentify, deidentify_documents

__all__ = ["DeidentifyParams", "deidentify", "deidentify_documents"]
