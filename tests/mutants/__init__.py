"""Small errors put into the code, to see whether a test notices: `python -m tests.mutants --help`."""
