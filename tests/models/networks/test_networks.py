"""CMedLMs' networks: published sizes, plain equivalents, and results that do not depend on what shares the batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from models import networks
from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts.convolution import Convolution, max_pool
from models.networks.parts.network import Network
from models.networks.parts.recurrent import Gru, Lstm, Recurrent

ALL = [(kind, name) for kind in ("tag", "classify") for name in networks.names(kind)]
WIDTH, LABELS = 12, 5


def make(name: str, kind: str, seed: int = 0, **change: int) -> Network:
    torch.manual_seed(seed)
    sizes = {"embedding_dim": WIDTH, "num_labels": LABELS, **change}
    return networks.build(name, kind=kind, **sizes).eval()


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("bilstm", [2_351_148, 2_555_948, 2_965_548, 14_729_260]),
        ("bigru", [1_777_708, 1_931_308, 2_238_508, 11_061_292]),
        ("cnn", [43_244, 75_244, 139_244, 1_977_324]),
        ("avcnn", [676_424, 826_424, 1_126_424, 9_742_424]),
        ("cnn_lstm", ["0.062", "0.067", "0.077", "0.353"]),
        ("cnn_gru", ["0.049", "0.054", "0.064", "0.340"]),
        ("dropout_bigru", ["0.150", "0.169", "0.208", "1.310"]),
        ("dropout_avrnn", ["0.157", "0.173", "0.207", "1.172"]),
        ("avrnn", ["0.251", "0.269", "0.305", "1.339"]),
        ("staresgru_cnn", [None, None, None, 16_288_300]),
    ],
)
def test_classifiers_have_the_published_numbers_of_parameters(name: str, counts: Sequence[int | str | None]) -> None:
    for width, wanted in zip((50, 100, 200, 3072), counts, strict=True):
        found = parameters(networks.build(name, width, 44, "classify"))
        assert wanted is None or (f"{found / 1e6:.3f}" if isinstance(wanted, str) else found) == wanted, width


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        # Table 7, with the 14 tags of six types in BIO and one for padding; its two columns differ by a hundredth.
        ("bilstm_crf", {50: 2.84, 100: 3.04, 200: 3.45, 3072: 15.2}),
        ("bilstm", {50: 2.32, 100: 2.52, 200: 2.93, 3072: 14.7}),
        ("cnn_lstm", {50: 1.20, 100: 1.21, 200: 1.22, 3072: 1.78}),
        ("bigru", {50: 1.74, 100: 1.90, 200: 2.20, 3072: 11.0}),
    ],
)
def test_taggers_have_the_published_numbers_of_parameters(name: str, millions: dict[int, float]) -> None:
    for width, wanted in millions.items():
        found = parameters(networks.build(name, width, 14, "tag")) / 1e6
        assert found == pytest.approx(wanted, abs=0.011 if wanted < 10 else 0.051), width


def test_dpcnn_has_about_the_published_number_of_parameters() -> None:
    for width, wanted in {50: 1.99, 100: 2.03, 200: 2.10, 3072: 4.26}.items():
        assert parameters(networks.build("dpcnn", width, 6, "classify")) / 1e6 == pytest.approx(wanted, rel=0.006)


def embeddings(lengths: Sequence[int], width: int = WIDTH, seed: int = 1) -> tuple[Tensor, Layout]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(lengths), width, generator=generator), Layout.from_lengths(lengths)


def per_sequence(network: Network, x_TD: Tensor, layout: Layout) -> list[Tensor]:
    with torch.no_grad():
        scores = network(x_TD, layout)
    return list(scores.split(layout.lengths) if network.tags else scores.split(1))


@pytest.mark.parametrize(("kind", "name"), ALL)
@settings(max_examples=6, deadline=None)
@given(lengths=st.lists(st.integers(1, 19), min_size=1, max_size=6), data=st.data())
def test_what_shares_the_batch_changes_no_result(kind: str, name: str, lengths: list[int], data: st.DataObject) -> None:
    network = make(name, kind)
    parts = embeddings(lengths)[0].split(lengths)
    alone = [per_sequence(network, part, Layout.from_lengths([len(part)]))[0] for part in parts]
    order = data.draw(st.permutations(range(len(lengths))))
    shuffled = [parts[number] for number in order]
    together = per_sequence(network, torch.cat(shuffled), Layout.from_lengths([len(part) for part in shuffled]))
    for number, found in zip(order, together, strict=True):
        torch.testing.assert_close(found, alone[number], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_padding_is_never_read(kind: str, name: str) -> None:
    network, lengths = make(name, kind), [3, 1, 7]
    x_TD, layout = embeddings(lengths)
    plain = nn.utils.rnn.pad_sequence(x_TD.split(lengths), batch_first=True, padding_value=torch.nan)
    with torch.no_grad():
        found = network.padded(torch.cat([plain, torch.full((3, 4, WIDTH), torch.inf)], 1), lengths)
    for number, (length, wanted) in enumerate(zip(lengths, per_sequence(network, x_TD, layout), strict=True)):
        if kind == "tag":
            torch.testing.assert_close(found[number, :length], wanted, rtol=0, atol=0)
            assert not found[number, length:].any()
        else:
            torch.testing.assert_close(found[number : number + 1], wanted, rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_parameter_and_every_token_counts(kind: str, name: str) -> None:
    network = make(name, kind).train()
    x_TD, layout = embeddings([9, 4])
    x_TD.requires_grad_()
    weights = torch.randn(9 + 4 if kind == "tag" else 2, LABELS)
    loss = (network(x_TD, layout) * weights).sum()
    if network.crf is not None:
        tags_T = torch.zeros(13, dtype=torch.int64)
        loss = loss - network.crf.log_likelihood(network(x_TD, layout), tags_T, layout).sum()
    loss.backward()
    assert x_TD.grad is not None
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, parameter_name
    if "dropout" not in name and name not in ("avrnn", "avcnn", "dpcnn", "cnn"):  # those drop or pass over some tokens
        assert (x_TD.grad.abs().sum(1) > 0).all()


def noise(sequences: Sequence[int], step: int = 0) -> SequenceNoise:
    rows = np.array(sequences)
    return SequenceNoise.for_step(7, step, 1001, rows, np.zeros_like(rows))


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_dropout_belongs_to_the_sequence(kind: str, name: str) -> None:
    network = make(name, kind).train()
    (x_TD, layout), lengths = embeddings([6, 3]), [6, 3]
    with torch.no_grad():
        first, again, other = (network(x_TD, layout, noise([4, 9], step)) for step in (0, 0, 1))
        swapped = network(torch.cat(x_TD.split(lengths)[::-1]), Layout.from_lengths(lengths[::-1]), noise([9, 4]))
    sizes = lengths if kind == "tag" else [1, 1]
    assert torch.equal(first, again) and not torch.allclose(first, other)
    torch.testing.assert_close(torch.cat(swapped.split(sizes[::-1])[::-1]), first, rtol=0, atol=1e-6)


def plain_gru(gru: Gru, x_LD: Tensor, direction: str) -> Tensor:
    """One direction of a GRU, a step at a time (equations 1 to 4, in the form of torch: z and 1 - z change places)."""
    weights = dict(gru.gru.named_parameters())
    w_ih, w_hh, b_ih, b_hh = (
        weights[f"{name}_l0{direction}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h, states = torch.zeros(gru.units), []
    for x in x_LD if not direction else x_LD.flip(0):
        from_input, from_state = (w_ih @ x + b_ih).chunk(3), (w_hh @ h + b_hh).chunk(3)
        r, z = (torch.sigmoid(from_input[gate] + from_state[gate]) for gate in (0, 1))
        candidate = torch.tanh(from_input[2] + r * from_state[2])
        h = z * h + (1 - z) * candidate
        states.append(h)
    return torch.stack(states if not direction else states[::-1])


def plain_bigru(gru: Gru, x_LD: Tensor) -> Tensor:
    return torch.cat([plain_gru(gru, x_LD, ""), plain_gru(gru, x_LD, "_reverse")], 1)


@pytest.mark.parametrize("width", [WIDTH, 1024])
def test_staresgru_equals_a_plain_implementation(width: int) -> None:
    network = make("staresgru_cnn", "classify", embedding_dim=width)
    tagger = make("staresgru_cnn_crf", "tag", embedding_dim=width)
    tagger.stack.load_state_dict(network.stack.state_dict())
    lengths = [4, 1, 3]
    x_TD, layout = embeddings(lengths, width)
    scores, emissions = per_sequence(network, x_TD, layout), per_sequence(tagger, x_TD, layout)
    for number, x_LD in enumerate(x_TD.split(lengths)):
        with torch.no_grad():
            h1 = plain_bigru(network.stack.layers[0], x_LD) + (x_LD if width == 1024 else 0)
            h2 = plain_bigru(network.stack.layers[1], h1) + h1
            hidden = torch.relu(network.hidden.weight @ h2.amax(0) + network.hidden.bias)
            wanted = network.output.weight @ hidden + network.output.bias
            tags = (
                torch.tanh(h2 @ tagger.dense.weight.T + tagger.dense.bias) @ tagger.output.weight.T + tagger.output.bias
            )
        torch.testing.assert_close(scores[number][0], wanted, rtol=0, atol=2e-6)
        torch.testing.assert_close(emissions[number], tags, rtol=0, atol=2e-6)


@pytest.mark.parametrize("both_ways", [True, False])
def test_lstm_equals_torch_s_with_its_second_bias_zero(both_ways: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = Lstm(6, 4, both_ways=both_ways), nn.LSTM(6, 4, bidirectional=both_ways)
    own = iter(ours.weights)
    for name, weight in theirs.named_parameters():
        weight.data = torch.zeros_like(weight) if "bias_hh" in name else next(own).data
    lengths = [5, 2, 7]
    x_TI, layout = embeddings(lengths, 6)
    states, last = ours(x_TI, layout), ours.last(ours(x_TI, layout), layout)
    for number, (x_LI, found) in enumerate(zip(x_TI.split(lengths), states.split(lengths), strict=True)):
        wanted, (h, _) = theirs(x_LI)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(last[number], h.flatten())


@pytest.mark.parametrize("kind", [Lstm, Gru])
@pytest.mark.parametrize("both_ways", [True, False])
def test_steps_have_the_states_and_gradients_of_torch_s_kernels(kind: type[Recurrent], both_ways: bool) -> None:
    torch.manual_seed(0)
    network = kind(6, 5, both_ways=both_ways)
    layout = Layout.from_lengths([4, 1, 7, 7, 2])
    weights = torch.randn(layout.total, network.features)
    found = []
    for own in (True, False):
        x, _ = embeddings([4, 1, 7, 7, 2], 6)
        x.requires_grad_()
        network.zero_grad()
        with patch("models.networks.parts.recurrent.steps_apply", return_value=own):
            states = network(x, layout)
        (states * weights).sum().backward()
        found.append([states, x.grad, *(one.grad for one in network.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_convolution_equals_torch_s_on_each_sequence(width: int) -> None:
    torch.manual_seed(0)
    convolution = Convolution(6, 7, width)
    weight_FIK = convolution.weight.detach().view(width, 7, 6).permute(1, 2, 0)
    lengths = [1, 5, 2, 9]
    x_TI, layout = embeddings(lengths, 6)
    found = convolution(x_TI, layout).split(lengths)
    for x_LI, y_LF in zip(x_TI.split(lengths), found, strict=True):
        padded = F.pad(x_LI.T, ((width - 1) // 2, width // 2))
        torch.testing.assert_close(y_LF, F.conv1d(padded[None], weight_FIK, convolution.bias)[0].T)


@pytest.mark.parametrize("lengths", [[1, 5, 2, 9], [1, 1], [2], [1]])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_convolution_has_the_gradients_of_torch_s(width: int, lengths: list[int]) -> None:
    torch.manual_seed(0)
    ours = Convolution(6, 7, width)
    x_TI, layout = embeddings(lengths, 6)
    leaves = [x_TI.requires_grad_(), ours.weight, ours.bias]
    towards_TF = torch.randn(layout.total, 7)
    found = torch.autograd.grad((ours(x_TI, layout) * towards_TF).sum(), leaves)
    weight_FIK = ours.weight.view(width, 7, 6).permute(1, 2, 0)
    padded = [F.pad(x_LI.T, ((width - 1) // 2, width // 2)) for x_LI in x_TI.split(lengths)]
    plain_TF = torch.cat([F.conv1d(one[None], weight_FIK, ours.bias)[0].T for one in padded])
    for gradient, wanted in zip(found, torch.autograd.grad((plain_TF * towards_TF).sum(), leaves), strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_a_neighbour_is_not_even_a_rounding_error() -> None:
    torch.manual_seed(0)
    convolution, lengths = Convolution(6, 7, 5), [3, 2, 1, 4]
    x_TI, layout = embeddings(lengths, 6)
    before = convolution(x_TI, layout).split(lengths)
    changed = x_TI.clone()
    changed[3:5], changed[6:] = torch.nan, 1e30  # all of the second and the last sequence
    after = convolution(changed, layout).split(lengths)
    assert torch.equal(before[0], after[0]) and torch.equal(before[2], after[2])


def test_convolution_in_bfloat16_is_near_that_in_float32() -> None:
    torch.manual_seed(0)
    convolution, (x_TI, layout) = Convolution(6, 7, 3), embeddings([3, 8], 6)
    found = []
    for enabled in (False, True):
        convolution.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = convolution(x_TI, layout)
        out.float().square().sum().backward()
        found.append([out.float(), convolution.weight.grad, convolution.bias.grad])
    for full, half in zip(*found, strict=True):
        torch.testing.assert_close(half, full, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("size", [2, 3])
def test_pooling_takes_the_maximum_of_each_window(size: int) -> None:
    lengths = [1, 2, 5, 8]
    x_TF, layout = embeddings(lengths, 3)
    found, shorter = max_pool(x_TF, layout, size)
    assert shorter.lengths == (1, 1, 3, 4)
    wanted = [part[at : at + size].amax(0) for part in x_TF.split(lengths) for at in range(0, len(part), 2)]
    assert torch.equal(found, torch.stack(wanted))


def test_views_equal_plain_ones() -> None:
    network = make("dropout_avrnn", "classify")
    lengths = [4, 1, 6]
    x_TD, layout = embeddings(lengths)
    with torch.no_grad():
        states_TF = network.second(network.first(x_TD, layout), layout)
        found = network.features(x_TD, layout, None)
    units = states_TF.shape[1] // 2
    for row, part in zip(found, states_TF.split(lengths), strict=True):
        shares = torch.softmax(part @ network.attention.weight, 0)
        plain = [part[-1, :units], part[0, units:], part.amax(0), shares @ part, part.mean(0)]
        torch.testing.assert_close(row, torch.cat(plain))


def test_dpcnn_equals_a_plain_pyramid() -> None:
    network = make("dpcnn", "classify")

    def convolve(convolution: Convolution, x_FL: Tensor) -> Tensor:
        weight = convolution.weight.view(3, convolution.filters, -1).permute(1, 2, 0)
        return F.conv1d(x_FL[None], weight, convolution.bias, padding=1)[0]

    for length in (1, 2, 9, 40):
        x_TD, layout = embeddings([length])
        with torch.no_grad():
            x = convolve(network.regions, x_TD.T)
            for number, block in enumerate(network.blocks):
                if number:
                    x = torch.stack([x[:, at : at + 3].amax(1) for at in range(0, x.shape[1], 2)], 1)
                x = x + convolve(block.second, torch.relu(convolve(block.first, torch.relu(x))))
            wanted = network.output(torch.relu(network.hidden(x.amax(1)[None])))
            torch.testing.assert_close(network(x_TD, layout), wanted, rtol=1e-5, atol=1e-5)


def convolved(convolution: Convolution, x_LI: Tensor) -> Tensor:
    """A convolution of one sequence by torch, (L, F), and ReLU."""
    width = convolution.width
    weight_FIK = convolution.weight.view(width, convolution.filters, -1).permute(1, 2, 0)
    padded = F.pad(x_LI.T, ((width - 1) // 2, width // 2))
    return torch.relu(F.conv1d(padded[None], weight_FIK, convolution.bias)[0].T)


def test_avcnn_equals_a_plain_implementation() -> None:
    network = make("avcnn", "classify")
    x_TD, layout = embeddings([7])
    with torch.no_grad():
        found = [convolved(one, x_TD) for one in network.convolutions]
        shares = [torch.softmax(one @ network.attention.weight, 0) for one in found]
        weighted = [share @ one for share, one in zip(shares, found, strict=True)]
        views = [*(one.amax(0) for one in found), *weighted, *(one.mean(0) for one in found)]
        torch.testing.assert_close(network.features(x_TD, layout, None)[0], torch.cat(views))


def test_cnn_equals_a_plain_implementation() -> None:
    network = make("cnn", "classify")
    x_TD, layout = embeddings([7])
    with torch.no_grad():
        wanted = convolved(network.convolution, x_TD).amax(0)
        torch.testing.assert_close(network.features(x_TD, layout, None)[0], wanted)


@pytest.mark.parametrize("name", ["cnn_lstm", "cnn_gru"])
def test_recurrence_over_filters_equals_a_plain_implementation(name: str) -> None:
    network = make(name, "classify")
    recurrent = network.lstm if name == "cnn_lstm" else network.gru
    for length in (1, 8, 9):
        x_TD, layout = embeddings([length])
        with torch.no_grad():
            y = convolved(network.convolution, x_TD)
            pooled = torch.stack([y[at : at + 2].amax(0) for at in range(0, length, 2)])
            states = recurrent(pooled, Layout.from_lengths([len(pooled)]))
            torch.testing.assert_close(network.features(x_TD, layout, None)[0], states[-1])


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("dropout_bigru", [(2, WIDTH), (9, 128), (2, 72)]),
        ("dropout_avrnn", [(2, WIDTH), (9, 112), (2, 128)]),
        ("avrnn", [(2, WIDTH), (2, 144)]),
        ("avcnn", [(2, WIDTH), (2, 144)]),
        ("cnn", [(2, 64)]),
    ],
)
def test_dropout_acts_before_each_layer_with_noise_of_its_own(name: str, shapes: list[tuple[int, int]]) -> None:
    network, (x_TD, layout) = make(name, "classify").train(), embeddings([6, 3])
    with patch.object(Network, "drop", autospec=True, side_effect=lambda network, x_NF, *_: x_NF) as drop:
        network(x_TD, layout)
    assert [tuple(call.args[1].shape) for call in drop.call_args_list] == shapes
    assert len({call.args[4] for call in drop.call_args_list}) == len(shapes), "sites that share noise drop alike"


def test_names_are_read_as_the_paper_writes_them() -> None:
    assert type(make("StaResGRU-CNN-CRF", "tag")) is type(make("staresgru_cnn_crf", "tag"))
    assert type(make("Dropout-AVRNN", "classify")) is type(make("dropout_avrnn", "classify"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "bilsm"}, "no network 'bilsm' of kind 'classify'; did you mean bilstm"),
        ({"name": "bilstm_crf"}, "no network 'bilstm_crf' of kind 'classify'; did you mean"),
        ({"kind": "tagging"}, "kind must be 'tag' or 'classify', got 'tagging'"),
        ({"embedding_dim": 0}, "embedding_dim must be a whole number of at least 1, got 0"),
        ({"num_labels": 2.0}, "num_labels must be a whole number of at least 1, got 2.0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
    ],
)
def test_impossible_arguments_are_explained(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        networks.build(**{"name": "bilstm", "embedding_dim": 8, "num_labels": 3, "kind": "classify", **change})


def test_seeded_weights_repeat() -> None:
    first, again, other = (make("cnn_lstm", "tag", seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_steps_of_a_batch_are_those_of_its_longest_text() -> None:
    layout = Layout.from_lengths([2, 5, 3])
    steps = networks.parts.recurrent.Steps.of(layout)
    assert steps.sizes.tolist() == [3, 3, 2, 1, 1]
    firsts = dict(zip(range(3), [0, 2, 7], strict=True))
    wanted = [firsts[number] + time for time, size in enumerate([3, 3, 2, 1, 1]) for number in [1, 2, 0][:size]]
    assert steps.order.tolist() == wanted
    assert all(late > early for early, late in pairwise(steps.order[steps.places].tolist()))
