"""Which errors of workers end long work at once, and which Ray Train may try again."""

from __future__ import annotations

import pytest

from infra.errors import StorageFullError, StoreLostError, UserError
from tasks.training.ray_train import GiveUpOnUserErrors


@pytest.mark.parametrize("error", [UserError("a missing part"), StorageFullError("full"), FloatingPointError("NaN")])
def test_errors_that_a_restart_would_not_fix_end_the_work(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        GiveUpOnUserErrors().after_exception(None, {0: RuntimeError("lost its neighbour"), 1: error})
    assert raised.value is error


@pytest.mark.parametrize("error", [StoreLostError("no answer"), RuntimeError("lost its neighbour")])
def test_other_errors_are_for_ray_to_try_again(error: Exception) -> None:
    GiveUpOnUserErrors().after_exception(None, {0: error})
