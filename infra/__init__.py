"""The ground floor: artifact store, stage contract, schemas, settings and Ray sessions.

Importing anything below this package switches off the telemetry of the libraries we build on, so no
entry point can forget to. It happens here because every other package imports this one first.
"""

from infra.settings import apply_defaults

apply_defaults()

__all__ = ["apply_defaults"]
