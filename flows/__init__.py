"""Flows: what happens in which order, one flow per file, readable on one screen."""

import infra  # noqa: F401 - switches telemetry off before Prefect is imported
