"""Stages, one a file: artifact in, artifact out. Prefect and Ray are wrapped around them here."""

import infra  # noqa: F401 - switches telemetry off before Prefect and Ray are imported
