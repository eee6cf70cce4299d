"""The heads of the downstream tasks."""
