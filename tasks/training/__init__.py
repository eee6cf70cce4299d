"""Long training runs, whatever is trained: specification, driver, launchers, checkpoints, curves. No stage, no
Prefect.
"""
