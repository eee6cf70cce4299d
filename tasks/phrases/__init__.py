"""Stages of phrase mining: the AutoPhrase program and an embedded engine."""
