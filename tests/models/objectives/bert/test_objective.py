"""BERT's objective: losses and gradients of transformers' own classes, pairs, exact masking, exports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForMaskedLM, BertForPreTraining

from models.export import save_pretrained
from models.objectives import build
from models.tokenizer.special_ids import MASK
from tests.support.training.token_rows import TINY, random_rows

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def pairs(lengths: Sequence[tuple[int, int]], seed: int = 0) -> list[dict[str, Any]]:
    """[CLS] A [SEP] B [SEP] with so many tokens in A and B, a word each; every third B is a random one."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, (first, second) in enumerate(lengths):
        ids = [2, *rng.integers(5, 300, first), 3, *rng.integers(5, 300, second), 3]
        starts = [*range(1, 1 + first), *range(2 + first, 2 + first + second)]
        rows.append(
            {
                "input_ids": np.array(ids),
                "word_starts": np.array(starts),
                "second": 2 + first,
                "is_random": number % 3 == 0,
            }
        )
    return rows


def bert(**options: Any) -> Any:
    torch.manual_seed(0)
    objective = build("bert", {**TINY, **NO_DROPOUT, **options})
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return objective


def padded(flat: Tensor, lengths: Sequence[int], filling: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(flat.split(list(lengths))), batch_first=True, padding_value=filling)


@pytest.mark.parametrize("pair_task", ["none", "nsp", "sop"])
def test_losses_and_gradients_match_transformers(pair_task: str, tmp_path: Path) -> None:
    objective = bert(pair_task=pair_task)
    rows = random_rows([20, 9, 31]) if pair_task == "none" else pairs([(9, 8), (3, 17), (12, 12), (20, 5)])
    batch = objective.collate(rows, seed=3, step=1)
    found = objective(batch)
    found["loss"].backward()

    save_pretrained(objective, tmp_path, "pre_training")
    kind = AutoModelForMaskedLM if pair_task == "none" else BertForPreTraining
    theirs = kind.from_pretrained(tmp_path).eval()
    lengths = batch.layout.lengths
    labels = torch.full((batch.tokens,), -100).index_copy(0, batch.selected, batch.original)
    types = torch.zeros_like(batch.input_ids) if batch.type_ids is None else batch.type_ids
    inputs = {
        "input_ids": padded(batch.input_ids, lengths, 0),
        "token_type_ids": padded(types, lengths, 0),
        "attention_mask": padded(torch.ones_like(batch.input_ids), lengths, 0),
        "labels": padded(labels, lengths, -100),
    }
    if pair_task != "none":
        inputs["next_sentence_label"] = batch.extras["pair_labels"]
    expected = theirs(**inputs).loss
    expected.backward()
    torch.testing.assert_close(found["loss"], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        objective.encoder.embeddings.word.weight.grad[1:],  # theirs gives [PAD] no gradient
        theirs.bert.embeddings.word_embeddings.weight.grad[1:],
        rtol=1e-4,
        atol=1e-6,
    )
    if pair_task != "none":
        torch.testing.assert_close(
            objective.pooler.weight.grad, theirs.bert.pooler.dense.weight.grad, rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("pair_task", ["none", "nsp"])
@pytest.mark.parametrize("positions", ["absolute", "rotary"])
def test_exports_load_whole(pair_task: str, positions: str, tmp_path: Path) -> None:
    objective = bert(pair_task=pair_task, positions=positions).eval()
    save_pretrained(objective, tmp_path / "encoder")
    model, report = AutoModel.from_pretrained(tmp_path / "encoder", output_loading_info=True)
    missing = {name for name in report["missing_keys"] if not name.startswith("pooler.")}
    assert not missing and not report["unexpected_keys"]
    assert bool(report["missing_keys"]) == (pair_task == "none" and positions == "absolute")  # no pooler was trained
    batch = objective.collate(random_rows([17]) if pair_task == "none" else pairs([(7, 7)]), seed=0, step=0)
    with torch.no_grad():
        ours = objective.encoder(batch.input_ids, batch.layout, batch.type_ids)
        types = None if batch.type_ids is None else batch.type_ids[None]
        theirs = model.eval()(batch.input_ids[None], token_type_ids=types).last_hidden_state[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)

    save_pretrained(objective, tmp_path / "whole", "pre_training")
    filling, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "whole", output_loading_info=True)
    assert not report["missing_keys"]
    with torch.no_grad():
        logits = filling.eval()(batch.input_ids[None], token_type_ids=types).logits[0, batch.selected]
    loss = torch.nn.functional.cross_entropy(logits, batch.original)
    torch.testing.assert_close(objective(batch)["mlm"], loss, rtol=1e-5, atol=1e-5)


def test_unknown_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'generator' cannot be exported; there are encoder, pre_training"):
        save_pretrained(bert(), tmp_path, "generator")


def test_number_of_predictions_is_exact() -> None:
    """CMed-BERT: at most 77 of 384 tokens (CMedLMs, Table 3)."""
    objective = bert(max_positions=600, mask_probability=0.15, max_predictions=77)
    rows = [{"input_ids": np.array([2, *[7] * (size - 2), 3]), "word_starts": np.arange(1, size - 1)} for size in SIZES]
    batch = objective.collate(rows, seed=1, step=0)
    by_row = dict(zip(batch.rows.tolist(), batch.selected_counts, strict=True))
    assert [by_row[number] for number in range(len(SIZES))] == [1, 2, 15, 58, 77, 77]
    assert (batch.input_ids[batch.selected] == MASK).float().mean() == pytest.approx(0.8, abs=0.1)


SIZES = [3, 10, 100, 384, 512, 600]


def test_half_of_the_pairs_are_exchanged_anew_each_step() -> None:
    objective, rows = bert(pair_task="sop"), pairs([(3, 4)] * 400)
    labels = [objective.collate(rows, seed=1, step=step).extras["pair_labels"] for step in (0, 1)]
    for one in labels:
        assert one.float().mean() == pytest.approx(0.5, abs=0.08)
    assert (labels[0] == labels[1]).float().mean() == pytest.approx(0.5, abs=0.08)


def test_label_follows_its_row_whatever_the_order_of_the_batch() -> None:
    objective, rows = bert(pair_task="nsp"), pairs([(3, 4), (9, 9), (2, 2), (5, 6)])
    batch = objective.collate(rows, seed=1, step=0)
    labels = dict(zip(batch.rows.tolist(), batch.extras["pair_labels"].tolist(), strict=True))
    assert labels == {0: 1, 1: 0, 2: 0, 3: 1}
    assert batch.type_ids is not None
    assert batch.type_ids.tolist()[: batch.layout.lengths[0]] == [0, 0, 0, 0, 1, 1, 1]  # row 2, the shortest


def test_micro_batches_add_up_to_the_whole_batch() -> None:
    objective, rows = bert(pair_task="sop"), pairs([(3, 4), (9, 9), (2, 2), (5, 6)])
    whole = objective(objective.collate(rows, seed=1, step=0))
    parts = [objective.collate([rows[i] for i in some], seed=1, step=0, row_indices=some) for some in ([0, 3], [1, 2])]
    shares = objective.survey(parts)
    added = [objective(part, share) for part, share in zip(parts, shares, strict=True)]
    for name in ("loss", "mlm", "sop"):
        torch.testing.assert_close(sum(one[name] for one in added), whole[name], rtol=1e-5, atol=1e-6)


def test_held_out_figures_are_named_and_the_loss_is_the_weighted_one() -> None:
    objective = bert(pair_task="nsp", pair_weight=3.0).eval()
    batch = objective.collate(pairs([(3, 4), (9, 9), (2, 2)]), seed=1, step=0)
    rates = objective.rates(objective.metrics(batch))
    assert tuple(rates) == objective.held_out_figures
    assert rates["loss"] == pytest.approx(rates["mlm_loss"] + 3.0 * rates["nsp_loss"])
    assert rates["loss"] == pytest.approx(float(objective(batch)["loss"].detach()), rel=1e-5)


def test_it_learns_to_restore_a_fixed_text() -> None:
    objective = bert()
    rows = random_rows([30] * 8)
    optimizer = torch.optim.Adam(objective.parameters(), 3e-3)
    losses = []
    for step in range(60):
        loss = objective(objective.collate(rows, seed=0, step=step))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pair_task": "nap"}, "pair_task must be one of none, nsp, sop, got 'nap'"),
        ({"pair_task": "nsp", "type_vocab_size": 1}, "needs type_vocab_size=2"),
        ({"max_predictions": 0}, "max_predictions must be at least 1 or None"),
        ({"pair_weight": 0.0}, "pair_task='none' leaves it out"),
        ({"mask_probability": 0.0}, r"mask_probability must lie in \(0, 1\]"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("bert", TINY | settings)
