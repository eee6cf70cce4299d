"""What verbs read from an artifact store: artifacts by what users call them, their lineage, and what is not needed."""
