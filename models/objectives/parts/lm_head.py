"""Output layer of the generator: loss and samples in one pass over the vocabulary's logits, which are never all in
memory.

Positions are processed in chunks. A chunk's logits become softmax weights in place, give the loss, the samples and at
once the gradient, and are then discarded. Memory is (chunk, V), where autograd would keep (M, V) twice. The backward
pass only scales the gradient found in the forward pass (the idea of Liger's and Apple's fused cross entropies: Hsu et
al., 2024; Wijmans et al., 2024).

Precision: logits, softmax, loss and samples are float32. So are the products with the table, except on CUDA under
autocast: there the factors are rounded to its dtype, while the matrix units add up in float32 and return it.

The table and the bias may have rows beyond the vocabulary (`EncoderConfig.vocab_multiple`). The products run over them,
the softmax does not.

Shape legend: M selected positions, D generator width, E embedding width, V vocabulary, P its rows with filling, K
negatives.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.config import EncoderConfig
from models.encoder.linear import Linear, matmul_transposed, weight_gradient
from models.encoder.network import fill_rows, initialise, load_filled
from models.objectives.parts.sampling import block_sums, sample, sample_without_replacement, softmax_weights_
from models.weights.heads import lm_head_from, lm_head_state

_CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 29}
"""Number of logits in a chunk: 16 MB on a CPU, 2 GB on a GPU, whose products need more rows."""


class HeadOutput(NamedTuple):
    """Outputs of the generator's head for M positions."""

    loss_sum: Tensor
    """float32 (): sum of -log p(original), Eq. 2 of eHealth; the only output with a gradient."""
    sample: Tensor
    """int64 (M,): one token drawn from p."""
    negatives: Tensor
    """int64 (M, K): distinct tokens drawn from p with the original excluded, independent of `sample`."""
    correct: Tensor
    """int64 (): positions where the original is the most probable token; 0 unless requested."""


class LanguageModelHead(nn.Module):
    """Dense, GELU, LayerNorm from generator to embedding width, then the tied table and a bias, as in ELECTRA's
    generator.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.transform = Linear(config.hidden_size, config.embedding_width)
        self.norm = nn.LayerNorm(config.embedding_width, eps=config.layer_norm_eps)
        self.vocabulary = config.vocab_size
        self.bias = nn.Parameter(fill_rows(torch.zeros(config.vocab_size), config))
        self.apply(lambda module: initialise(module, config.initializer_range))

    def forward(
        self,
        hidden_MD: Tensor,
        table_PE: Tensor,
        original_M: Tensor,
        uniforms_MJ2: Tensor | None = None,
        count_correct: bool = False,
    ) -> HeadOutput:
        """`uniforms_MJ2`: float64 (M, 1 + K, 2); column 0 draws the sample, the others the K negatives.

        None: nothing is drawn, and `sample` and `negatives` are empty.
        """
        x_ME = self.norm(F.gelu(self.transform(hidden_MD)).float())
        return tied_loss(x_ME, table_PE, original_M, self.vocabulary, self.bias, uniforms_MJ2, count_correct)

    def read(self, state: Mapping[str, Tensor], model_type: str, order_V: Tensor) -> dict[str, Tensor]:
        """Return a checkpoint's weights for this head, the bias filled up as this one is; see `HeadReader`."""
        found = lm_head_from(state, model_type, order_V)
        if "bias" in found:
            found["bias"] = torch.cat([found["bias"], found["bias"].new_zeros(len(self.bias) - self.vocabulary)])
        return found

    def exported(self, model_type: str) -> dict[str, Tensor]:
        """Return the head's weights under the names of transformers' `model_type`."""
        return lm_head_state(self.transform, self.norm, self.bias[: self.vocabulary], model_type)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        load_filled(state_dict, f"{prefix}bias", self.vocabulary, len(self.bias))
        super()._load_from_state_dict(state_dict, prefix, *args)


def tied_loss(
    x_ME: Tensor,
    table_PE: Tensor,
    original_M: Tensor,
    vocabulary: int,
    bias_P: Tensor | None = None,
    uniforms_MJ2: Tensor | None = None,
    count_correct: bool = False,
) -> HeadOutput:
    """Compare float32 vectors with all tokens of a tied table: softmax cross entropy, and samples if asked for.

    `vocabulary`: rows of the table that are tokens. See `LanguageModelHead.forward` for the draws.
    """
    if uniforms_MJ2 is None:
        uniforms_MJ2 = x_ME.new_empty(len(x_ME), 0, 2, dtype=torch.float64)
    if bias_P is None:
        bias_P = table_PE.new_zeros(len(table_PE))
    if not torch.is_grad_enabled():  # the function below sees only that weights are trainable, not this mode
        table_PE, bias_P = table_PE.detach(), bias_P.detach()
    product = product_for(x_ME.device.type)
    with torch.autocast(x_ME.device.type, enabled=False):  # softmax, loss and samples stay float32
        settings = (product, vocabulary, count_correct)
        return HeadOutput(*_LossAndSamples.apply(x_ME, table_PE, bias_P, original_M, uniforms_MJ2, *settings))


Product = Callable[[Tensor, Tensor], Tensor]
"""Function that returns A B^T in float32 of float32 factors (N, I) and (O, I)."""


def product_for(device_type: str) -> Product:
    """Return the product with the table for the current autocast state."""
    if device_type == "cuda" and torch.is_autocast_enabled("cuda"):
        return functools.partial(rounded_product, dtype=torch.get_autocast_dtype("cuda"))
    return matmul_transposed


def rounded_product(a_NI: Tensor, b_OI: Tensor, dtype: torch.dtype) -> Tensor:
    """Return A B^T in float32 of factors rounded to `dtype`; torch supports it on CUDA only."""
    return torch.mm(a_NI.to(dtype), b_OI.to(dtype).t(), out_dtype=torch.float32)


class _LossAndSamples(torch.autograd.Function):
    """Softmax cross entropy, its gradient and the samples, chunk by chunk, in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ME: Tensor,
        table_PE: Tensor,
        bias_P: Tensor,
        original_M: Tensor,
        uniforms_MJ2: Tensor,
        product: Product,
        vocabulary: int,
        count_correct: bool,
    ) -> tuple[Tensor, ...]:
        wanted = any(ctx.needs_input_grad[:3])
        grads = tuple(torch.zeros_like(t) for t in (x_ME, table_PE, bias_P)) if wanted else ()
        loss, correct = x_ME.new_zeros(()), original_M.new_zeros(())
        draws = uniforms_MJ2.shape[1]
        samples, negatives = original_M.new_empty(0), original_M.new_empty(0, max(0, draws - 1))
        parts = [(samples, negatives)]
        rows = max(1, _CHUNK_ELEMENTS.get(x_ME.device.type, 1 << 22) // len(table_PE))
        for start in range(0, len(x_ME), rows):
            chunk = slice(start, start + rows)
            x, target, u = x_ME[chunk], original_M[chunk], uniforms_MJ2[chunk]
            filled = product(x, table_PE).add_(bias_P)
            logits = filled[:, :vocabulary]  # a view: the added rows stay out of all that follows
            if count_correct:
                correct += (logits.argmax(1) == target).sum()
            target_logit = logits.gather(1, target[:, None])[:, 0] - logits.amax(1)
            weights = softmax_weights_(logits)
            sums = block_sums(weights)
            total = sums.sum(1)
            loss += (total.log() - target_logit).sum()
            if draws:
                drawn = sample_without_replacement(weights, sums, target, u[:, 1:])
                parts.append((sample(weights, sums, u[:, 0]), drawn))
            if wanted:
                filled[:, vocabulary:] = 0.0
                _add_gradients(grads, chunk, filled, total, target, x, table_PE, product)
        ctx.save_for_backward(*grads)
        samples, negatives = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.mark_non_differentiable(samples, negatives, correct)
        return loss, samples, negatives, correct

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, table, bias = (saved * grads[0] for saved in ctx.saved_tensors)
        return x, table, bias, None, None, None, None, None


def _add_gradients(
    grads: tuple[Tensor, ...],
    chunk: slice,
    weights: Tensor,
    total: Tensor,
    target: Tensor,
    x: Tensor,
    table: Tensor,
    product: Product,
) -> None:
    """Add the chunk's share of the gradient of the summed loss: softmax minus one-hot, times the other factor.

    `weights` is overwritten.
    """
    grad_x, grad_table, grad_bias = grads
    grad_logits = weights.mul_((1.0 / total).to(weights.dtype)[:, None])
    grad_logits.scatter_add_(1, target[:, None], grad_logits.new_full((len(target), 1), -1.0))
    grad_x[chunk] = product(grad_logits, table.t())
    grad_table += weight_gradient(grad_logits, x, product)
    grad_bias += grad_logits.sum(0)
