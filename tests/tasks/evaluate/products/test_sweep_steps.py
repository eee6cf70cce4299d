"""Runs with other shares of PAP steps have equally many RTD steps."""

from __future__ import annotations

import pytest

from tasks.evaluate.products.sweep_steps import rtd_steps, steps_for
from tests.support.training.token_rows import TINY


@pytest.mark.parametrize("share", [0.0, 0.01, 0.15, 0.6])
def test_steps_are_the_fewest_that_give_the_rtd_steps(share: float) -> None:
    model = {**TINY, "pap_share": share}
    for wanted in (1, 57, 200):
        steps = steps_for("electra_em_pap", model, wanted, seed=3)
        assert rtd_steps("electra_em_pap", model, steps, seed=3) == wanted
        assert rtd_steps("electra_em_pap", model, steps - 1, seed=3) == wanted - 1
    assert (steps == 200) == (share == 0.0)
