"""Readers of the official files of downstream tasks."""
