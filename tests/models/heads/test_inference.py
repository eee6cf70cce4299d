"""Batch prediction: input order, bounded chunks, progress, the model's mode."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from models.heads.examples import HeadExample
from models.inference import batches_by_length, predict, predict_stream


@pytest.mark.parametrize("kind", ["single", "choice", "tagging_crf"])
@pytest.mark.parametrize("batch_tokens", [1, 40, None])
def test_predictions_are_those_of_each_example_alone(
    kind: str, batch_tokens: int | None, make_model: Callable, make_examples: Callable
) -> None:
    model, examples = make_model(kind, dropout=0.5).train(), make_examples(kind, count=9)
    together = predict(model, examples, batch_tokens=batch_tokens)
    assert model.training
    for example, prediction in zip(examples, together, strict=True):
        alone = model.predict(model.collate([example]))[0]
        np.testing.assert_allclose(prediction, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["single", "choice", "tagging", "two_stream", "triples"])
def test_predictions_are_those_of_the_model_that_learns(
    kind: str, make_model: Callable, make_examples: Callable
) -> None:
    """Without gradients the encoder takes a faster way (models/encoder/inference.py); with them the plain one."""
    model, examples = make_model(kind).eval(), make_examples(kind, count=9)
    plain = model.encode(model.collate(examples)).detach()
    with torch.no_grad():
        torch.testing.assert_close(model.encode(model.collate(examples)), plain, rtol=1e-5, atol=1e-5)
    if kind in ("single", "choice"):
        logits = model.logits(model.collate(examples)).detach()
        with torch.no_grad():
            torch.testing.assert_close(model.logits(model.collate(examples)), logits, rtol=1e-5, atol=1e-5)


def test_iterator_is_read_a_chunk_at_a_time(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single", count=10)
    read, done = [], []

    def source() -> Iterator[HeadExample]:
        for example in examples:
            read.append(example)
            yield example

    stream = predict_stream(model, source(), chunk_examples=4, batch_tokens=1, progress=done.append)
    first = next(stream)
    assert len(read) == 4 and done == [1, 2, 3, 4]
    assert len([first, *stream]) == 10 and done == list(range(1, 11))


def test_nothing_in_nothing_out(make_model: Callable) -> None:
    assert predict(make_model("single"), []) == []


def test_targets_are_not_looked_at(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single", count=3)
    mixed = [HeadExample(example.sequences, target) for example, target in zip(examples, (None, 99, "x"), strict=True)]
    for a, b in zip(predict(model, examples), predict(model, mixed), strict=True):
        assert np.array_equal(a, b)


def test_batches_hold_every_example_once_and_no_more_tokens_than_asked(make_examples: Callable) -> None:
    examples = make_examples("choice", count=30)
    batches = list(batches_by_length(examples, 60))
    assert sorted(number for batch in batches for number in batch) == list(range(30))
    sizes = [[sum(len(s.input_ids) for s in examples[number].sequences) for number in batch] for batch in batches]
    assert all(sum(batch) <= 60 or len(batch) == 1 for batch in sizes)
    flat = [size for batch in sizes for size in batch]
    assert flat == sorted(flat, reverse=True)


def test_bfloat16_is_near_float32(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single")
    exact, rough = (np.stack(predict(model, examples, precision=name)) for name in ("fp32", "bf16"))
    assert rough.dtype == np.float32 and 0 < np.abs(exact - rough).max() < 0.02
    assert not torch.is_autocast_enabled("cpu")


def test_bad_input_is_named(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single", count=6)
    examples[5] = make_examples("choice", count=1)[0]
    with pytest.raises(ValueError, match="example 5: head 'single' takes 1"):
        list(predict_stream(model, examples, chunk_examples=4))
    with pytest.raises(ValueError, match="precision must be fp32 or bf16, got 'fp8'"):
        predict(model, examples, precision="fp8")
    with pytest.raises(ValueError, match=r"batch_tokens \(0\)"):
        predict(model, examples, batch_tokens=0)
