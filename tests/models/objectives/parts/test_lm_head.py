"""The generator's head: chunked loss and gradients equal torch's over full logits."""

import pytest
import torch
import torch.nn.functional as F

from models.encoder.config import EncoderConfig
from models.objectives.parts import lm_head
from models.objectives.parts.lm_head import LanguageModelHead

CONFIG = EncoderConfig(vocab_size=50, hidden_size=8, num_heads=2, intermediate_size=16, embedding_size=12)


def inputs(positions: int) -> tuple[LanguageModelHead, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    head = LanguageModelHead(CONFIG)
    torch.nn.init.normal_(head.bias)
    hidden = torch.randn(positions, 8, requires_grad=True)
    table = torch.randn(50, 12, requires_grad=True)
    return head, hidden, table, torch.randint(0, 50, (positions,)), torch.rand(positions, 6, 2).double()


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_loss_gradients_and_accuracy(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lm_head._CHUNK_ELEMENTS, "cpu", chunk * 50)
    head, hidden, table, original, uniforms = inputs(10)
    out = head(hidden, table, original, uniforms, count_correct=True)
    leaves = (hidden, table, *head.parameters())
    ours = torch.autograd.grad(out.loss_sum * 0.5, leaves)

    states = head.norm(F.gelu(F.linear(hidden, head.transform.weight, head.transform.bias)))
    logits = F.linear(states, table, head.bias)
    loss = F.cross_entropy(logits, original, reduction="sum")
    torch.testing.assert_close(out.loss_sum, loss)
    for a, b in zip(ours, torch.autograd.grad(loss * 0.5, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert out.correct == (logits.argmax(1) == original).sum()
    candidates = torch.cat([original[:, None], out.negatives], 1)
    assert (candidates.sort(1).values.diff(dim=1) > 0).all()


def test_chunks_change_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    head, hidden, table, original, uniforms = inputs(9)
    whole = head(hidden, table, original, uniforms)
    monkeypatch.setitem(lm_head._CHUNK_ELEMENTS, "cpu", 100)
    parts = head(hidden, table, original, uniforms)
    assert torch.equal(whole.sample, parts.sample) and torch.equal(whole.negatives, parts.negatives)


def test_no_positions_give_no_loss() -> None:
    head, hidden, table, original, uniforms = inputs(0)
    out = head(hidden, table, original, uniforms)
    out.loss_sum.backward()
    assert out.loss_sum == 0 and out.negatives.shape == (0, 5) and not table.grad.any()


def test_without_a_graph_no_gradient_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass over micro-batches and the evaluation need losses and samples alone."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("a gradient was computed")

    monkeypatch.setattr(lm_head, "_add_gradients", refuse)
    torch.manual_seed(0)
    head, width = LanguageModelHead(CONFIG), CONFIG.embedding_width
    table, uniforms = (
        torch.nn.Parameter(torch.randn(CONFIG.vocab_size, width)),
        torch.rand(4, 3, 2, dtype=torch.float64),
    )
    given = (torch.randn(4, CONFIG.hidden_size), table, torch.arange(4), uniforms)
    with torch.no_grad():
        found = head(*given)
    assert found.negatives.shape == (4, 2) and not found.loss_sum.requires_grad
    with pytest.raises(AssertionError, match="a gradient was computed"):
        head(*given)
