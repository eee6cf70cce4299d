"""A BERT/ELECTRA encoder that runs unpadded: sequences are laid end to end (models/encoder/layout.py), and attention
never crosses them.

It has the weights and numbers of transformers' `ElectraModel` and `BertModel` (models/weights/convert.py maps them;
parity is tested in float32). It is a post-layer-norm Transformer (Vaswani et al., 2017) with exact GELU and learned
positions (Devlin et al., 2019). An embedding narrower or wider than the hidden size is projected once (ELECTRA: Clark
et al., 2020, section 3.2).

Precision: under `torch.autocast` the products take bfloat16 factors, while the residual stream, LayerNorm and the
master weights stay float32. After `encoder.to(torch.bfloat16)`, for inference, all tensors are bfloat16; LayerNorm and
softmax still add up in float32 inside their kernels.

Shape legend: S sequences, T tokens laid end to end, D hidden size, E embedding size, H heads, C = D / H channels, F
FFN size.
"""

import functools
from collections.abc import Callable, Collection
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.encoder.attention import attend
from models.encoder.config import EncoderConfig
from models.encoder.dropout import draw_mask, dropout, dropout_add
from models.encoder.layout import Layout
from models.encoder.linear import Linear
from models.encoder.randomness import SequenceNoise
from models.encoder.rotary import turn, turns


class WordTable(nn.Embedding):
    """The word embeddings, followed by the rows of zeros that `vocab_multiple` asks for.

    `num_embeddings` counts the true vocabulary. The same seed gives the same weights with and without added rows. A
    state with the vocabulary's rows alone can be loaded, so a checkpoint made without added rows serves a model that
    has them. One made with another number of added rows is refused.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config.vocab_size, config.embedding_width)
        self.weight = nn.Parameter(fill_rows(self.weight.detach(), config))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        load_filled(state_dict, f"{prefix}weight", self.num_embeddings, len(self.weight))
        super()._load_from_state_dict(state_dict, prefix, *args)


class Embeddings(nn.Module):
    """Word + position + type embeddings, LayerNorm, dropout; no position table if positions are rotary."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.word = WordTable(config)
        self.position = nn.Embedding(config.max_positions, width) if config.positions == "absolute" else None
        self.token_type = nn.Embedding(config.type_vocab_size, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = config.hidden_dropout

    def forward(
        self,
        input_ids_T: Tensor,
        layout: Layout,
        type_ids_T: Tensor | None = None,
        noise: SequenceNoise | None = None,
    ) -> Tensor:
        """Return embeddings (T, E) of token ids int64 (T,); `type_ids_T` int64 (T,), None for type 0 throughout."""
        types = self.token_type.weight[0] if type_ids_T is None else self.token_type(type_ids_T)
        words_TE = self.word(input_ids_T)
        if self.position is not None:
            words_TE = words_TE + self.position(layout.positions)
        x_TE = self.norm(words_TE + types)
        if not self.training:
            return x_TE
        return dropout(x_TE, self.dropout, draw_mask(x_TE, self.dropout, layout, noise))


class EncoderLayer(nn.Module):
    """Self-attention, then a two-layer network, each followed by dropout, residual and LayerNorm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.qkv = Linear(width, 3 * width)
        self.attention_output = Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.intermediate = Linear(width, config.intermediate_size)
        self.output = Linear(config.intermediate_size, width)
        self.output_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(
        self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None = None, turns_TC: Tensor | None = None
    ) -> Tensor:
        """Map (T, D) to (T, D). `noise` holds this layer's own streams, `turns_TC` the tokens' rotary positions."""
        attention_rate = self.config.attention_dropout if self.training else 0.0
        hidden_rate = self.config.hidden_dropout if self.training else 0.0
        qkv_T3HC = self.qkv(x_TD).view(layout.total, 3, self.config.num_heads, -1)
        mixed_TD = attend(turned(qkv_T3HC, turns_TC), layout, attention_rate, noise)
        masks = tuple(draw_mask(x_TD, hidden_rate, layout, noise) for _ in range(2))
        if not self.config.compile_layers:
            return _after_attention(self, mixed_TD, x_TD, *masks)
        for tensor in (mixed_TD, x_TD, *masks):
            if tensor is not None:
                torch._dynamo.maybe_mark_dynamic(tensor, 0)  # T differs at every step
        return _compiled_after_attention()(self, mixed_TD, x_TD, *masks)


def turned(qkv_T3HC: Tensor, turns_TC: Tensor | None) -> Tensor:
    """Return queries and keys turned by their tokens' places, values unchanged; without `turns_TC` all unchanged."""
    if turns_TC is None:
        return qkv_T3HC
    heads = qkv_T3HC.shape[2]
    return turn(qkv_T3HC.flatten(1, 2), turns_TC, 2 * heads).unflatten(1, (3, heads))


def _after_attention(
    layer: EncoderLayer, mixed_TD: Tensor, x_TD: Tensor, first_mask_TD: Tensor | None, mask_TD: Tensor | None
) -> Tensor:
    """Rest of a layer after softmax(q k^T) v.

    It is a function of tensors alone, without the layout, whose lengths differ at every step and would make a compiler
    start over.
    """
    rate = layer.config.hidden_dropout if layer.training else 0.0
    x_TD = layer.attention_norm(dropout_add(layer.attention_output(mixed_TD), x_TD, rate, first_mask_TD))
    ffn_TD = layer.output(F.gelu(layer.intermediate(x_TD)))
    return layer.output_norm(dropout_add(ffn_TD, x_TD, rate, mask_TD))


@functools.cache
def _compiled_after_attention() -> Callable[..., Tensor]:
    """One graph without breaks for any number of tokens; layers of equal sizes share it."""
    return torch.compile(_after_attention, fullgraph=True)


class Encoder(nn.Module):
    """The whole encoder: `Encoder(config)(input_ids_T, layout)` returns hidden states (T, D)."""

    def __init__(self, config: EncoderConfig, embeddings: Embeddings | None = None) -> None:
        """Build the encoder, on `embeddings` of another module if given.

        They stay registered with their owner alone, so that parameters and checkpoints hold them once.
        """
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        width = config.embedding_width
        self.projection = Linear(width, config.hidden_size) if width != config.hidden_size else None
        self.apply(lambda module: initialise(module, config.initializer_range))
        if embeddings is None:
            self.own_embeddings: Embeddings | None = Embeddings(config)
            self.own_embeddings.apply(lambda module: initialise(module, config.initializer_range))
            self._shared_embeddings: tuple[Embeddings, ...] = ()
        else:
            _check_shared(config, embeddings)
            self.own_embeddings = None
            self._shared_embeddings = (embeddings,)  # nn.Module does not register what is inside a tuple

    @property
    def embeddings(self) -> Embeddings:
        """The embedding block, own or shared."""
        return self.own_embeddings if self.own_embeddings is not None else self._shared_embeddings[0]

    def forward(
        self,
        input_ids_T: Tensor,
        layout: Layout,
        type_ids_T: Tensor | None = None,
        noise: SequenceNoise | None = None,
    ) -> Tensor:
        """Return hidden states (T, D) of the last layer for token ids int64 (T,).

        `noise` gives each sequence its own dropout on the CPU; None draws the streams from torch's default generator.
        On CUDA dropout always draws from the device's generator. Raises ValueError for a sequence longer than
        `max_positions`, or for ids that do not fill the layout.
        """
        noise = self.default_noise(input_ids_T, layout) if noise is None else noise
        return self.run(self.embed(input_ids_T, layout, type_ids_T, noise), layout, noise)

    def embed(
        self,
        input_ids_T: Tensor,
        layout: Layout,
        type_ids_T: Tensor | None = None,
        noise: SequenceNoise | None = None,
    ) -> Tensor:
        """Return embeddings as the first layer reads them, (T, D): the input of `run`. Raises as `forward` does."""
        self._check(input_ids_T, layout)
        x_TD = self.embeddings(input_ids_T, layout, type_ids_T, noise.fork(0) if noise else None)
        if self.projection is not None:
            x_TD = self.projection(x_TD).to(x_TD.dtype)  # autocast's bfloat16 does not enter the residual stream
        return x_TD

    def run(
        self,
        x_TD: Tensor,
        layout: Layout,
        noise: SequenceNoise | None = None,
        *,
        first: int = 0,
        last: int | None = None,
    ) -> Tensor:
        """Return states (T, D) after layers `first` to `last` (from 0, `last` excluded; None: to the end).

        Between two calls a caller may change the states but not their shape, for example add knowledge at mentions
        after layer 10 (SMedBERT, section 3.3). All calls of one pass take the same `noise`.
        """
        turns_TC = self.turns(layout)
        for index in range(len(self.layers))[first:last]:
            x_TD = self._layer(index, x_TD, layout, noise, turns_TC)
        return x_TD

    def states(
        self,
        input_ids_T: Tensor,
        layout: Layout,
        wanted: Collection[int],
        type_ids_T: Tensor | None = None,
        noise: SequenceNoise | None = None,
    ) -> dict[int, Tensor]:
        """Return hidden states (T, D) by number: 0 for the embeddings, n after n layers, as transformers counts them.

        Layers beyond the last wanted one are not computed. Raises ValueError for a number without a state.
        """
        impossible = [number for number in wanted if not 0 <= number <= len(self.layers)]
        if impossible or not wanted:
            raise ValueError(
                f"an encoder of {len(self.layers)} layers has states 0 to {len(self.layers)}, not {wanted}"
            )
        noise = self.default_noise(input_ids_T, layout) if noise is None else noise
        x_TD, done, found = self.embed(input_ids_T, layout, type_ids_T, noise), 0, {}
        for number in sorted(set(wanted)):
            x_TD = self.run(x_TD, layout, noise, first=done, last=number)
            found[number], done = x_TD, number
        return found

    def default_noise(self, input_ids_T: Tensor, layout: Layout) -> SequenceNoise | None:
        """Return dropout streams drawn from torch's default generator.

        None if there is no dropout, or on CUDA, where the device's generator draws it.
        """
        if not self.training or input_ids_T.is_cuda:
            return None
        return SequenceNoise.from_default_generator(len(layout.lengths))

    def turns(self, layout: Layout) -> Tensor | None:
        """Return rotary positions of a batch's tokens, complex64 (T, C / 2); None if positions are absolute."""
        if self.config.positions != "rotary":
            return None
        channels = self.config.hidden_size // self.config.num_heads
        return turns(self.config.max_positions, channels, layout.positions.device)[layout.positions]

    def _layer(
        self, index: int, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None, turns_TC: Tensor | None
    ) -> Tensor:
        """Layer `index`, with its activations kept or not.

        A recomputed layer draws the same dropout: on the CPU because its streams restart at each fork, on CUDA because
        the generator's state is restored.
        """

        def run(x_TD: Tensor) -> Tensor:
            return self.layers[index](x_TD, layout, noise.fork(index + 1) if noise else None, turns_TC)

        if not (self.config.checkpoint_activations and torch.is_grad_enabled()):
            return run(x_TD)
        return checkpoint(run, x_TD, use_reentrant=False, preserve_rng_state=x_TD.is_cuda)

    def _check(self, input_ids_T: Tensor, layout: Layout) -> None:
        longest = max(layout.lengths)
        if longest > self.config.max_positions:
            raise ValueError(
                f"a sequence of {longest} tokens is longer than max_positions={self.config.max_positions}; "
                "split the text into shorter segments or raise max_positions"
            )
        if input_ids_T.shape != (layout.total,):
            raise ValueError(
                f"input ids of shape {tuple(input_ids_T.shape)} do not fill a layout of {layout.total} tokens"
            )


def initialise(module: nn.Module, std: float) -> None:
    """Initialise one module like BERT: weights N(0, std), biases 0, LayerNorm 1 and 0. For `nn.Module.apply`."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Embedding):
        # Only true tokens draw: added rows stay zero, and the same seed gives the same weights without them.
        nn.init.normal_(module.weight.detach()[: module.num_embeddings], std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


def _check_shared(config: EncoderConfig, embeddings: Embeddings) -> None:
    rows, width = embeddings.word.weight.shape
    if (rows, width) != (config.table_rows, config.embedding_width):
        raise ValueError(
            f"shared embeddings are {rows} x {width}, but this encoder needs "
            f"vocab_size={config.table_rows} x embedding_size={config.embedding_width}; "
            "set both to those of the shared table"
        )


def fill_rows(values_V: Tensor, config: EncoderConfig) -> Tensor:
    """Return a table (V, E) or bias (V,) with rows of zeros up to `config.table_rows`."""
    filled = values_V.new_zeros(config.table_rows, *values_V.shape[1:])
    filled[: len(values_V)] = values_V
    return filled


def load_filled(state: dict[str, Any], key: str, vocabulary: int, rows: int) -> None:
    """Fill `state[key]` up to `rows` if it holds the vocabulary's rows alone.

    Raises ValueError if its length is neither the vocabulary's nor the model's.
    """
    given = state.get(key)
    if given is None or len(given) == rows:
        return
    if len(given) != vocabulary:
        raise ValueError(
            f"{key} has {len(given)} rows in this checkpoint; the model has {vocabulary} tokens, filled up to {rows} "
            "rows. Build the model with the vocab_size and vocab_multiple that the checkpoint was trained with."
        )
    state[key] = torch.cat([given, given.new_zeros(rows - vocabulary, *given.shape[1:])])


def count_parameters(module: nn.Module) -> int:
    """Number of parameters, each shared one counted once."""
    return sum(parameter.numel() for parameter in module.parameters())


def parameters_without_decay(module: nn.Module) -> set[str]:
    """Return names of the parameters without weight decay: biases and everything in a LayerNorm."""
    norms = {
        f"{prefix}.{name}" if prefix else name
        for prefix, child in module.named_modules()
        if isinstance(child, nn.LayerNorm)
        for name, _ in child.named_parameters(recurse=False)
    }
    return norms | {name for name, _ in module.named_parameters() if name.rpartition(".")[2] == "bias"}
