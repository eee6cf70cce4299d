"""Stages over knowledge graphs: reading, fusion, links, neighbours, vectors, thesaurus."""
