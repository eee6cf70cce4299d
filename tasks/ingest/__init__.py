"""Stages `ingest` and `render_articles`: documents from raw files."""
