"""Queries of a diagnosis: spelled out, cut into parts, and searched for candidates."""
