"""The encoder equals transformers', and a sequence's result does not depend on its neighbours."""

from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from transformers import AutoModel

from models.encoder import network as encoder_module
from models.encoder.config import EncoderConfig
from models.encoder.dropout import draw_mask, dropout_add
from models.encoder.layout import Layout
from models.encoder.network import Embeddings, Encoder, count_parameters, parameters_without_decay
from models.encoder.randomness import SequenceNoise, Stream
from models.encoder.rotary import turn, turns
from models.weights.convert import load_from_transformers, to_transformers, transformers_config

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_layers": 3,
    "num_heads": 4,
    "intermediate_size": 56,
    "max_positions": 40,
}


def peers(kind: str, embedding_size: int, implementation: str) -> tuple[Encoder, nn.Module]:
    """Our encoder and transformers' with the same random weights, biases and norms included."""
    torch.manual_seed(3)
    positions = "rotary" if kind == "roformer" else "absolute"
    config = EncoderConfig(**SIZES, embedding_size=embedding_size, positions=positions)
    options = transformers_config(config, kind)
    options._attn_implementation = implementation
    theirs: nn.Module = AutoModel.from_config(options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:  # RoFormer's table of sines is no weight
                parameter.add_(torch.randn_like(parameter) * 0.1)
    ours = Encoder(config)
    load_from_transformers(ours, theirs.state_dict())
    return ours.eval(), theirs.eval()


def padded(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Ids (S, L) padded with 0, and their mask."""
    ids = nn.utils.rnn.pad_sequence(parts, batch_first=True)
    mask = nn.utils.rnn.pad_sequence([torch.ones(len(p), dtype=torch.long) for p in parts], batch_first=True)
    return ids, mask


@pytest.mark.parametrize(
    ("kind", "embedding_size", "implementation"),
    [
        ("electra", 32, "sdpa"),
        ("electra", 12, "eager"),
        ("electra", 48, "sdpa"),
        ("bert", 32, "eager"),
        ("bert", 32, "sdpa"),
        ("roformer", 32, "eager"),
        ("roformer", 12, "eager"),
    ],
)
@pytest.mark.parametrize("lengths", [[7, 7, 12, 30], [1, 40], [9], [1], [40, 3, 3, 3, 40]])
def test_outputs_and_gradients_equal_transformers(
    kind: str, embedding_size: int, implementation: str, lengths: list[int]
) -> None:
    ours, theirs = peers(kind, embedding_size, implementation)
    parts = [torch.randint(1, 97, (n,)) for n in lengths]  # theirs gives id 0 no gradient
    types = [torch.randint(0, 2, (n,)) for n in lengths]
    ids, mask = padded(parts)
    out = ours(torch.cat(parts), Layout.from_lengths(lengths), torch.cat(types))
    expected = theirs(ids, attention_mask=mask, token_type_ids=padded(types)[0])[0][mask.bool()]
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)

    direction = torch.randn_like(out)
    (out * direction).sum().backward()
    (expected * direction).sum().backward()
    ours.load_state_dict({name: p.grad for name, p in ours.named_parameters()})  # the gradients, through
    gradients = to_transformers(ours)  # the same mapping as the weights
    for name, parameter in theirs.named_parameters():
        if parameter.grad is not None:  # BERT's pooler takes no part
            scale = max(1.0, float(parameter.grad.abs().max()))
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize(("kind", "implementation"), [("electra", "sdpa"), ("roformer", "eager")])
def test_weights_survive_the_round_trip(kind: str, implementation: str) -> None:
    ours, theirs = peers(kind, 12, implementation)
    exported = to_transformers(ours)
    assert exported.keys() == theirs.state_dict().keys()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(exported[name], tensor), name


def test_types_default_to_zero() -> None:
    ours, _ = peers("electra", 32, "sdpa")
    ids, layout = torch.randint(0, 97, (9,)), Layout.from_lengths([4, 5])
    assert torch.equal(ours(ids, layout), ours(ids, layout, torch.zeros(9, dtype=torch.long)))


def test_rotary_attention_depends_on_distance_alone() -> None:
    """The same words, moved by ten places behind others of their sequence that they do not see, attend alike."""
    channels, places = 8, torch.arange(6)
    query, key = torch.randn(6, 2, channels), torch.randn(6, 2, channels)

    def scores(offset: int) -> Tensor:
        table = turns(40, channels, torch.device("cpu"))[places + offset]
        return torch.einsum("qhc,khc->hqk", turn(query, table), turn(key, table))

    torch.testing.assert_close(scores(10), scores(0), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(scores(0), torch.einsum("qhc,khc->hqk", query, key), atol=1e-2)


def test_rotary_encoder_in_bfloat16_keeps_its_turns() -> None:
    """A module's complex buffer would lose its imaginary part with `.to(bfloat16)`."""
    ours, _ = peers("roformer", 32, "eager")
    ids, layout = torch.randint(0, 97, (30,)), Layout.from_lengths([30])
    exact = ours(ids, layout)
    rounded = ours.to(torch.bfloat16)(ids, layout).float()
    assert (rounded - exact).abs().mean() < 0.05


@pytest.mark.parametrize("positions", ["absolute", "rotary"])
def test_run_in_two_pieces_equals_one(positions: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(**SIZES, positions=positions)).train()
    ids, layout = torch.randint(0, 97, (21,)), Layout.from_lengths([9, 12])
    noise = SequenceNoise.for_step(1, 2, Stream.GENERATOR_DROPOUT, np.arange(2), np.zeros(2, int))
    whole = encoder(ids, layout, noise=noise)
    half = encoder.run(encoder.embed(ids, layout, noise=noise), layout, noise, last=2)
    assert torch.equal(encoder.run(half, layout, noise, first=2), whole)
    changed = half.index_add(0, torch.tensor([4]), torch.ones(1, SIZES["hidden_size"]))
    assert not torch.equal(encoder.run(changed, layout, noise, first=2)[:9], whole[:9])
    assert torch.equal(encoder.run(changed, layout, noise, first=2)[9:], whole[9:])


@pytest.mark.parametrize(("kind", "implementation"), [("bert", "sdpa"), ("roformer", "eager")])
def test_states_are_transformers_hidden_states(kind: str, implementation: str) -> None:
    ours, theirs = peers(kind, 32, implementation)
    ids, layout = torch.randint(1, 97, (12,)), Layout.from_lengths([12])
    expected = theirs(ids[None], output_hidden_states=True).hidden_states
    found = ours.states(ids, layout, (0, 1, 3))
    assert list(found) == [0, 1, 3]
    for number, state in found.items():
        torch.testing.assert_close(state, expected[number][0], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"has states 0 to 3, not \(4,\)"):
        ours.states(ids, layout, (4,))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "relative"}, "positions must be one of absolute, rotary, got 'relative'"),
        ({"positions": "rotary", "num_heads": 32}, "a head has 1; choose num_heads"),
    ],
)
def test_impossible_positions_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderConfig(**SIZES | settings)


def test_weights_that_do_not_fit_are_all_named() -> None:
    ours, theirs = peers("electra", 32, "sdpa")
    state = dict(theirs.state_dict())
    del state["encoder.layer.0.output.dense.bias"]
    state["embeddings.word_embeddings.weight"] = torch.zeros(5, 32)
    state["surplus"] = torch.zeros(1)
    with pytest.raises(ValueError, match=r"word_embeddings.*\(5, 32\).*missing encoder.*unknown surplus"):
        load_from_transformers(ours, state)


def test_dropout_of_a_sequence_does_not_depend_on_the_batch() -> None:
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(**SIZES)).train()
    parts = [torch.randint(0, 97, (n,)) for n in (5, 9, 9)]

    def run(order: list[int]) -> list[Tensor]:
        noise = SequenceNoise.for_step(1, 2, Stream.GENERATOR_DROPOUT, np.array(order), np.zeros(len(order), int))
        lengths = [len(parts[i]) for i in order]
        return list(
            encoder(torch.cat([parts[i] for i in order]), Layout.from_lengths(lengths), noise=noise).split(lengths)
        )

    together, alone = run([0, 1, 2]), run([2])
    torch.testing.assert_close(together[2], alone[0], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(together[2], encoder.eval()(parts[2], Layout.from_lengths([9])), atol=1e-2)


def test_every_dropout_has_a_mask_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One mask for both dropouts of a layer would couple them, and no mean of the results would tell."""
    drawn: list[Tensor | None] = []

    def recorded(*arguments: Any) -> Tensor | None:
        drawn.append(draw_mask(*arguments))
        return drawn[-1]

    used: list[Tensor | None] = []

    def adding(x_TD: Tensor, residual_TD: Tensor, rate: float, mask_TD: Tensor | None) -> Tensor:
        used.append(mask_TD)
        return dropout_add(x_TD, residual_TD, rate, mask_TD)

    monkeypatch.setattr("models.encoder.network.draw_mask", recorded)
    monkeypatch.setattr("models.encoder.network.dropout_add", adding)
    noise = SequenceNoise.for_step(1, 2, Stream.GENERATOR_DROPOUT, np.array([0]), np.array([0]))
    Encoder(EncoderConfig(**SIZES)).train()(torch.arange(9), Layout.from_lengths([9]), noise=noise)
    assert len(drawn) == 7 and [id(mask) for mask in used] == [id(mask) for mask in drawn[1:]]
    assert len({bytes(mask.numpy().tobytes()) for mask in used if mask is not None}) == 6


def test_dropout_without_noise_follows_torch_manual_seed() -> None:
    encoder, ids, layout = Encoder(EncoderConfig(**SIZES)).train(), torch.arange(8), Layout.from_lengths([8])
    torch.manual_seed(1)
    first, second = encoder(ids, layout), encoder(ids, layout)
    torch.manual_seed(1)
    assert torch.equal(first, encoder(ids, layout)) and not torch.equal(first, second)


def test_shared_embeddings_are_held_once() -> None:
    config = EncoderConfig(**SIZES)
    owner = Encoder(config)
    sharer = Encoder(EncoderConfig(**SIZES | {"hidden_size": 8}, embedding_size=32), embeddings=owner.embeddings)
    assert sharer.embeddings is owner.embeddings
    assert not any("embeddings" in name for name in sharer.state_dict())
    with pytest.raises(ValueError, match="vocab_size=97 x embedding_size=32"):
        Encoder(config, embeddings=Embeddings(EncoderConfig(**SIZES | {"vocab_size": 50})))


def test_base_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig(vocab_size=21_128))
    assert count_parameters(encoder) == 101_677_056


def test_weights_without_decay_are_biases_and_norms() -> None:
    encoder = Encoder(EncoderConfig(**SIZES, embedding_size=12))
    decayed = {n for n, _ in encoder.named_parameters()} - parameters_without_decay(encoder)
    assert all(n.endswith(".weight") and "norm" not in n for n in decayed)
    assert {"own_embeddings.word.weight", "projection.weight", "layers.0.qkv.weight"} <= decayed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, r"num_heads=5 must divide hidden_size=32; choose one of \[1, 2, 4, 8, 16, 32\]"),
        ({"hidden_size": 0}, "hidden_size must be a positive integer, got 0"),
        ({"num_layers": 1.5}, "num_layers must be a positive integer"),
        ({"embedding_size": -3}, "embedding_size must be a positive integer or None"),
        ({"hidden_dropout": 1.0}, r"hidden_dropout must be in \[0, 1\)"),
        ({"checkpoint_activations": 1}, "checkpoint_activations must be true or false, got 1"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps must be positive"),
    ],
)
def test_impossible_sizes_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderConfig(**SIZES | change)


def test_bad_inputs_are_named() -> None:
    encoder = Encoder(EncoderConfig(**SIZES))
    with pytest.raises(ValueError, match="a sequence of 41 tokens is longer than max_positions=40; split"):
        encoder(torch.zeros(41, dtype=torch.long), Layout.from_lengths([41]))
    with pytest.raises(ValueError, match="do not fill a layout of 4 tokens"):
        encoder(torch.zeros(3, dtype=torch.long), Layout.from_lengths([4]))


def trained_once(encoder: Encoder, lengths: list[int], autocast: bool = False) -> list[Tensor]:
    """Hidden states and gradients of one pass with dropout; keyed noise."""
    torch.manual_seed(1)
    ids, layout = torch.randint(0, 97, (sum(lengths),)), Layout.from_lengths(lengths)
    noise = SequenceNoise.for_step(1, 2, Stream.DISCRIMINATOR_DROPOUT, np.arange(len(lengths)), np.zeros(len(lengths)))
    encoder.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = encoder.train()(ids, layout, noise=noise)
    (out * torch.randn_like(out)).sum().backward()
    return [out.detach(), *(p.grad for p in encoder.parameters() if p.grad is not None)]


def same_encoders(**changes: Any) -> tuple[Encoder, Encoder]:
    """An encoder and one with the same weights and `changes`."""
    torch.manual_seed(0)
    plain, changed = (Encoder(EncoderConfig(**SIZES | given)) for given in ({}, changes))
    changed.load_state_dict(plain.state_dict())
    return plain, changed


@pytest.mark.parametrize("autocast", [False, True])
def test_checkpointed_activations_change_no_bit(autocast: bool) -> None:
    """Dropout is on: recomputed layers draw the same masks."""
    kept, again = same_encoders(checkpoint_activations=True)
    for expected, found in zip(
        trained_once(kept, [7, 9], autocast), trained_once(again, [7, 9], autocast), strict=True
    ):
        assert torch.equal(expected, found)


def test_checkpointed_activations_are_not_kept() -> None:
    """Bytes that autograd holds between the passes: less than half, and little more than each layer's input."""

    def held(encoder: Encoder) -> int:
        storages: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        own = {p.untyped_storage().data_ptr() for p in encoder.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            out = encoder.train()(torch.arange(80) % 97, Layout.from_lengths([40, 40]))
        assert out.requires_grad
        return sum(size for address, size in storages.items() if address not in own)

    kept, again = same_encoders(checkpoint_activations=True)
    inputs = 80 * 32 * 4 * 3
    assert held(again) < held(kept) / 2
    assert held(again) < 2 * inputs  # the embeddings' own activations come on top


def test_one_graph_without_breaks_serves_all_lengths_and_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fullgraph` refuses a break; the counter sees each compilation. Values and gradients are the plain layer's."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    compiled = torch.compile(encoder_module._after_attention, fullgraph=True, backend=counter)
    monkeypatch.setattr(encoder_module, "_compiled_after_attention", lambda: compiled)
    # In float64, as sums in another order round differently on each kind of processor.
    plain, fused = (encoder.double() for encoder in same_encoders(compile_layers=True))
    for lengths in ([7, 9], [5], [3, 3, 30], [40, 2]):
        for expected, found in zip(trained_once(plain, lengths), trained_once(fused, lengths), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert counter.frame_count == 1
    with torch.no_grad():
        ids, layout = torch.arange(12), Layout.from_lengths([12])
        torch.testing.assert_close(fused.eval()(ids, layout), plain.eval()(ids, layout), rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()
