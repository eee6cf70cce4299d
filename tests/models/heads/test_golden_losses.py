"""Losses of a few steps of every head on the standard encoder, as they were before encoders had a protocol."""

from collections.abc import Callable

import pytest

from models import heads
from models.finetuning import FinetuneConfig, finetune
from tests.support.heads.tiny_heads import OPTIONS, SIZES

GOLDEN = {
    "single": (1.092910, 0.911570, 0.867739, 0.734900),
    "pair": (1.092910, 0.911570, 0.867739, 0.734900),
    "multi_label": (0.698697, 0.708306, 0.690905, 0.719040),
    "ranking": (0.686523, 0.480296, 0.368650, 0.577482),
    "choice": (0.705616, 0.636410, 0.608682, 0.661142),
    "tagging": (1.596809, 1.650716, 1.702992, 1.267112),
    "tagging_crf": (1.596809, 1.652399, 1.705758, 1.250095),
    "two_stream": (5.140309, 5.131241, 5.139986, 4.516727),
    "triples": (2.658494, 2.721123, 2.043134, 1.785437),
}
"""Loss of the first three steps of a run of 9, and of the last."""
ENCODER = {"hidden_dropout": 0.1, "attention_dropout": 0.1, "num_layers": 2}


@pytest.mark.parametrize("kind", GOLDEN)
def test_losses_are_those_of_before(kind: str, make_examples: Callable) -> None:
    name, options = OPTIONS[kind]
    losses: list[float] = []
    finetune(
        heads.build(name, SIZES | ENCODER, seed=1, **options),
        make_examples(kind, count=12),
        FinetuneConfig(epochs=3, batch_size=4, learning_rate=1e-2, log_every=1),
        report=lambda step, split, figures: losses.append(figures["loss"]),
    )
    assert [*losses[:3], losses[-1]] == pytest.approx(GOLDEN[kind], rel=2e-5)
