"""Trials of a grid: what one is, how it runs and resumes, and what it leaves."""
