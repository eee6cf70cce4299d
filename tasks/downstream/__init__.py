"""Downstream tasks of the papers: files, examples, scores and submissions."""
