"""Stages `ingest` and `render_articles`: raw files to documents."""
