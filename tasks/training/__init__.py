"""Long training runs, whatever is trained: what they are given, driver, launchers, checkpoints, curves.

No stage, no Prefect.
"""
