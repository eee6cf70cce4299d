"""The papers' downstream tasks: their files, their examples, their metrics and their submissions."""
