"""Running stages inside a flow, with Prefect or without it. The only room where Prefect and stages meet."""

from tasks.runner.flow import flow, info, warn
from tasks.runner.planning import UnmadeError
from tasks.runner.stages import StageRunner, stage_runner

__all__ = ["StageRunner", "UnmadeError", "flow", "info", "stage_runner", "warn"]
