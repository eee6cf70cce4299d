"""Articles rendered from the facts of a knowledge graph."""
