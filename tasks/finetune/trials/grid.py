"""The trials of a grid: which there are, how they run, and which one is the best.

The best setting has the best mean on dev over its seeds (eHealth, section 4.2). Its best run answers the test file.
Trials that an earlier, killed run finished are not repeated. The disk has only the weights of the best setting so far
and of unfinished settings.

A single trial at a time runs in this process. Several at a time, or one on a cluster's GPU, are trials of Ray Tune,
each with its share of the cores or a GPU (placement.py). If the process of such a trial dies, the trial
is tried once more and resumes after its last whole epoch. If it dies again, the other trials still finish, and the next
run resumes the rest.
"""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from statistics import mean
from typing import Any

import torch

from infra.cluster.session import start_ray, stop_ray
from infra.errors import UserError
from infra.settings import Settings, available_cores
from models.training.allocator import keep_freed_memory, return_freed_memory
from tasks.finetune.params import Resources
from tasks.finetune.trials.placement import TrialPlacement, placement_for
from tasks.finetune.trials.result import DIVERGED, TrialResult, drop_model, read_result
from tasks.finetune.trials.run import run_trial
from tasks.finetune.trials.trial import Trial

logger = logging.getLogger(__name__)

Progress = Callable[[float, str], None]
"""Receives the epochs done over all trials, and a note."""


def run_trials(trials: Sequence[Trial], resources: Resources, progress: Progress) -> list[TrialResult]:
    """Run trials of one kind, and return their results in order; finished trials are reused.

    Raises:
        UserError: model, files, settings or resources do not fit.
        RuntimeError: the processes of some trials died twice; the message names them. All others are finished.
    """
    found = {trial.name: read_result(trial) for trial in trials}
    open_ = [trial for trial in trials if found[trial.name] is None]
    if len(open_) < len(trials):
        logger.info("reused %d of %d trials, finished by an earlier run", len(trials) - len(open_), len(trials))
    watch = _Watch(trials, progress)
    for trial in trials:
        if found[trial.name] is not None:
            watch.finished(trial)
    if open_:
        # The placement is that of the whole grid, not of what is left of it: with other threads the last bits of the
        # scores would change.
        _run(open_, placement_for(len(trials), resources), watch)
    return [result for trial in trials if (result := read_result(trial)) is not None]


def best_run(results: Iterable[TrialResult]) -> TrialResult:
    """Return the best run of the setting with the best mean, of equals the first. A diverged run counts as 0.

    Raises:
        UserError: all runs diverged.
    """
    found = list(results)
    means = {setting: mean(r.score for r in found if r.trial.setting == setting) for setting in _settings(found)}
    for setting in sorted(means, key=lambda setting: -means[setting]):
        whole = [r for r in found if r.trial.setting == setting and r.stopped != DIVERGED]
        if whole:
            return max(whole, key=lambda result: result.score)
    section = found[0].trial.section
    raise UserError(f"The loss became NaN or infinite in every trial. Lower {section}.learning_rates.")


def still_wanted(trials: Sequence[Trial], results: Sequence[TrialResult]) -> set[str]:
    """Return the names of finished trials whose weights may still be those of the best run.

    These are the best run of all finished settings, and the best seed so far of each unfinished one.
    """
    known = {result.trial.name for result in results}
    # A setting's mean is not known before its last seed, so its best seed must be kept until then.
    open_ = {trial.setting for trial in trials if trial.name not in known}
    done = [result for result in results if result.trial.setting not in open_]
    rest = [[result for result in results if result.trial.setting == setting] for setting in open_]
    return {best_run(found).trial.name for found in (done, *rest) if any(one.stopped != DIVERGED for one in found)}


def _kept(trials: Sequence[Trial], results: Sequence[TrialResult]) -> set[str]:
    """Return the names of finished trials whose weights are still wanted in their own contest."""
    contests = dict.fromkeys(trial.contest for trial in trials)
    return set().union(
        *(
            still_wanted(
                [trial for trial in trials if trial.contest == one],
                [result for result in results if result.trial.contest == one],
            )
            for one in contests
        )
    )


def _settings(results: Sequence[TrialResult]) -> list[tuple[int, float, int]]:
    return list(dict.fromkeys(result.trial.setting for result in results))


class _Watch:
    """Follows trials: how far they are, and which weights can be deleted."""

    def __init__(self, trials: Sequence[Trial], progress: Progress) -> None:
        self._trials = trials
        self._progress = progress
        self._epochs = dict.fromkeys((trial.name for trial in trials), 0.0)
        self._best: float | None = None

    def reached(self, trial: Trial, epochs: float, best: float) -> None:
        """Report the epochs that a trial has done."""
        self._epochs[trial.name] = epochs
        self._best = best if self._best is None else max(self._best, best)
        self._progress(sum(self._epochs.values()), f"{trial.name}, best dev {self._best:.4f}")

    def finished(self, trial: Trial) -> None:
        """Report a finished trial, and delete the weights that can no longer be those of the best run."""
        result = read_result(trial)
        if result is None:
            return
        self.reached(trial, trial.epochs, result.score)
        results = [found for one in self._trials if (found := read_result(one)) is not None]
        kept = _kept(self._trials, results)
        for found in results:
            if found.trial.name not in kept:
                drop_model(found.trial)


def _run(trials: Sequence[Trial], placement: TrialPlacement, watch: _Watch) -> None:
    """Run trials as placed: one at a time in this process with all its cores, or by Ray."""
    trials = [trial.model_copy(update={"gpu": placement.gpu}) for trial in trials]
    if placement.at_once > 1 or placement.only_by_ray:
        trials = [trial.model_copy(update={"threads": placement.threads}) for trial in trials]
    if placement.only_by_ray or min(placement.at_once, len(trials)) > 1:
        _tune(trials, placement, watch)
    else:
        _run_here(trials, watch)


def _run_here(trials: Sequence[Trial], watch: _Watch) -> None:
    """Run trials one after the other in this process."""
    threads = torch.get_num_threads()
    keep_freed_memory()
    try:
        for trial in trials:
            run_trial(trial, functools.partial(watch.reached, trial))
            watch.finished(trial)
    finally:
        torch.set_num_threads(threads)
        return_freed_memory()


def _tune(trials: Sequence[Trial], placement: TrialPlacement, watch: _Watch) -> None:
    """Run trials by Ray Tune, which only places them; our own results on disk decide what is finished."""
    from ray import tune

    settings = Settings.from_environment()
    by_name = {trial.name: trial for trial in trials}

    class Follow(tune.Callback):
        def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
            if "epochs" in result:
                watch.reached(by_name[_trial_name(trial)], result["epochs"], result["best"])

        def on_trial_complete(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
            watch.finished(by_name[_trial_name(trial)])

    start_ray(available_cores(), settings.ray_address)
    try:
        tuner = tune.Tuner(
            tune.with_resources(
                functools.partial(_tune_trial, type(trials[0])),
                {"cpu": placement.threads, "gpu": placement.gpus},
            ),
            param_space={
                "trial": tune.grid_search(
                    [{"name": name, "json": one.model_dump_json()} for name, one in by_name.items()]
                )
            },
            tune_config=tune.TuneConfig(
                max_concurrent_trials=placement.at_once,
                reuse_actors=True,  # a process takes longer to start than a small task to train
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=f"{trials[0].storage}/tune-{uuid.uuid4().hex[:8]}",
                callbacks=[Follow()],
                failure_config=tune.FailureConfig(max_failures=1),
                verbose=0,
            ),
        )
        errors = [getattr(error, "cause", error) for error in tuner.fit().errors]
    finally:
        if settings.ray_address is None:  # a cluster's connection serves later stages too
            stop_ray()
    mistakes = [error for error in errors if isinstance(error, UserError)]
    if mistakes:
        raise mistakes[0]
    lost = [trial.name for trial in trials if read_result(trial) is None]
    if lost:
        raise RuntimeError(
            f"Trials that failed twice: {', '.join(lost)}. {_first_line(errors)} The other trials are finished. Run "
            "the same command again to resume these after their last whole epoch."
        )


def _first_line(errors: Sequence[BaseException]) -> str:
    """Return the first line of the first error; in the others Ray describes its own processes."""
    return str(errors[0]).partition("\n")[0] if errors else "Ray Tune reported no error."


def _trial_name(trial: Any) -> str:
    return trial.config["trial"]["name"]


def _tune_trial(kind: type[Trial], config: dict[str, Any]) -> None:
    """Run one trial; Ray Tune calls it in a process of the trial's own."""
    from ray import tune

    keep_freed_memory()
    trial = kind.model_validate_json(config["trial"]["json"])
    run_trial(trial, lambda epochs, best: tune.report({"epochs": epochs, "best": best}))
