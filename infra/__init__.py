"""The ground floor: artifact store, stage contract, schemas, settings and Ray sessions.

Importing anything below this package switches off the telemetry of the libraries that we build on. It happens here
because every other package imports this one first, so no entry point can forget it.
"""

from infra.settings import apply_defaults

apply_defaults()

__all__ = ["apply_defaults"]
