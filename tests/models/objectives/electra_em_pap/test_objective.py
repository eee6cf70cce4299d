"""ELECTRA+EM+PAP: losses of transformers' own encoder, entities masked whole, and which parameters a task moves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModel

from models.export import save_pretrained
from models.objectives import build, check
from models.tokenizer.special_ids import MASK
from models.training.loop import train, training_config
from tests.support.training.products import product_rows, product_values, streams_of
from tests.support.training.token_rows import TINY, Rows, random_rows

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an artifact of products."""
    (tmp_path / "values").mkdir()
    product_values().save(tmp_path / "values")
    return tmp_path


def model(folder: Path | None = None, **options: Any) -> Any:
    torch.manual_seed(0)
    objective = build("electra_em_pap", {**TINY, **NO_DROPOUT, "most_values": 3, **options})
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    if folder is not None:
        objective.attach("products", folder)
    return objective


def pairs(objective: Any, numbers: list[int], step: int = 1) -> Any:
    rows = product_rows()
    return objective.collate([rows[n] for n in numbers], seed=3, step=step, row_indices=numbers, task="pap")


def text_rows(lengths: list[int], mentions: list[list[tuple[int, int]]] | None = None) -> Rows:
    """Rows of text with mentions: first token, token behind the last, entity, name."""
    given = mentions or [[] for _ in lengths]
    return [
        {**row, "mentions": np.array([(*span, 0, 0) for span in spans], dtype=np.int64).reshape(-1, 4)}
        for row, spans in zip(random_rows(lengths), given, strict=True)
    ]


@pytest.mark.parametrize(("norm", "positions"), [(2, "absolute"), (1, "absolute"), (2, "rotary")])
def test_pap_is_equations_2_and_3_on_transformers_states(
    folder: Path, tmp_path: Path, norm: int, positions: str
) -> None:
    """Each sequence alone through transformers' encoder, each triple with its own sum."""
    objective = model(folder, distance_norm=norm, margin=0.8, positions=positions).eval()
    batch = pairs(objective, [0, 1, 2, 3])
    save_pretrained(objective, tmp_path / "exported")
    encoder = AutoModel.from_pretrained(tmp_path / "exported").eval()
    types = batch.type_ids.split(batch.layout.lengths)
    f = []
    for ids, kinds in zip(batch.input_ids.split(batch.layout.lengths), types, strict=True):
        state = encoder(ids[None], token_type_ids=kinds[None]).last_hidden_state[0, 0]
        f.append(F.gelu(objective.pap_head.dense.weight @ state + objective.pap_head.dense.bias))

    def d(pair: int, value: int) -> torch.Tensor:
        difference = f[batch.pair_sequences[pair]] - f[batch.value_sequences[value]]
        return difference.abs().sum() if norm == 1 else difference.square().sum().sqrt()

    losses = []
    of, right = batch.value_pairs.tolist(), batch.is_positive.tolist()
    for value in range(len(of)):
        if right[value]:
            wrong = [other for other in range(len(of)) if of[other] == of[value] and not right[other]]
            loss = -torch.log(torch.sigmoid(0.8 - d(of[value], value)))
            for other in wrong:
                loss = loss - torch.log(torch.sigmoid(d(of[value], other) - 0.8)) / len(wrong)
            losses.append(loss)
    expected = torch.stack(losses).mean()
    found = objective(batch)
    torch.testing.assert_close(found["pap"], expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found["loss"].detach(), expected.detach(), rtol=1e-5, atol=1e-5)


def test_rtd_is_electra_on_the_same_batch(folder: Path) -> None:
    objective = model(folder)
    electra = build("electra", {**TINY, **NO_DROPOUT})
    own = {name: value for name, value in objective.state_dict().items() if not name.startswith("pap_head")}
    electra.load_state_dict(own)
    batch = objective.collate(text_rows([20, 9, 31]), seed=3, step=1, task="rtd")
    found, expected = objective(batch), electra(batch)
    for name in ("mlm", "rtd", "loss"):
        assert float(found[name].detach()) == float(expected[name].detach())


@pytest.mark.parametrize(
    ("task", "untouched"), [("pap", ("generator", "generator_head", "rtd_head")), ("rtd", ("pap_head",))]
)
def test_a_task_has_no_gradient_for_the_other_ones_parameters(
    folder: Path, task: str, untouched: tuple[str, ...]
) -> None:
    objective = model(folder)
    rows = product_rows() if task == "pap" else text_rows([20, 9])
    objective(objective.collate(rows, seed=1, step=0, task=task))["loss"].backward()
    shared = {id(parameter) for parameter in objective.discriminator.parameters()}
    for name, part in objective.named_children():
        for parameter in part.parameters():
            if name in untouched and id(parameter) not in shared:
                assert parameter.grad is None, name
    assert all(parameter.grad is not None for parameter in objective.discriminator.parameters())


def test_entities_are_masked_whole_and_every_token_of_them() -> None:
    objective = model(max_positions=64)
    rows = text_rows([60] * 300, [[(3, 9), (20, 22), (40, 47)]] * 300)
    batch = objective.collate(rows, seed=0, step=0)
    assert bool((batch.input_ids[batch.selected] == MASK).all())
    chosen = torch.zeros(batch.tokens, dtype=torch.bool).index_fill(0, batch.selected, True).view(300, 60)
    for first, behind in ((3, 9), (20, 22), (40, 47)):
        whole = chosen[:, first:behind]
        assert bool((whole.all(1) == whole.any(1)).all())
        assert float(whole.any(1).float().mean()) == pytest.approx(0.15, abs=0.06)
    # A word that an entity cuts ends there: what is left of it is chosen apart from the entity.
    assert bool((chosen[:, 9] != chosen[:, 8]).any())


def test_every_place_of_a_row_is_selected_equally_often() -> None:
    objective = model(max_positions=64)
    counts = torch.zeros(60)
    for step in range(12):
        batch = objective.collate(text_rows([60] * 250, [[(3, 9), (20, 22), (40, 47)]] * 250), seed=0, step=step)
        counts += torch.bincount(batch.layout.positions[batch.selected], minlength=60)
    shares = counts[1:-1] / 3_000
    assert float(counts[0] + counts[-1]) == 0
    assert float(shares.mean()) == pytest.approx(0.15, abs=0.01)
    # The standard error of a place is .0065; of the 58 places the farthest is within 4 of them.
    assert float((shares - 0.15).abs().max()) < 0.027


def test_without_entity_masking_mentions_are_not_read() -> None:
    plain = model(entity_masking=False)
    batch = plain.collate(random_rows([20] * 30), seed=3, step=1)
    with_entities = model().collate(text_rows([20] * 30, [[(2, 12)]] * 30), seed=3, step=1)
    assert batch.selected.tolist() != with_entities.selected.tolist()
    assert {column.name for column in plain.tasks[0].columns} == {"input_ids", "word_starts"}


def test_micro_batches_add_up_to_the_whole_batch(folder: Path) -> None:
    objective = model(folder)
    whole = objective(pairs(objective, [0, 1, 2, 3]))
    parts = [pairs(objective, [0, 3]), pairs(objective, [2, 1])]
    added = [objective(part, share) for part, share in zip(parts, objective.survey(parts), strict=True)]
    for name in ("loss", "pap"):
        torch.testing.assert_close(sum(one[name] for one in added), whole[name], rtol=1e-5, atol=1e-6)


def test_dropout_and_values_follow_from_the_step(folder: Path) -> None:
    objective = model(folder, hidden_dropout=0.1, attention_dropout=0.1).train()
    first, again = (float(objective(pairs(objective, [0, 1, 2]))["loss"].detach()) for _ in range(2))
    assert first == again != float(objective(pairs(objective, [0, 1, 2], step=2))["loss"].detach())


def test_figures_of_each_task_are_named_and_plausible(folder: Path) -> None:
    objective = model(folder).eval()
    text = objective.collate(text_rows([40] * 20), seed=1, step=0)
    rates = [objective.rates(objective.metrics(batch)) for batch in (text, pairs(objective, list(range(6))))]
    assert set(rates[0]) | set(rates[1]) == set(objective.held_out_figures)
    assert set(rates[0]) & set(rates[1]) == {"loss"}
    assert rates[1]["loss"] == rates[1]["pap_loss"] and 0 <= rates[1]["pap_accuracy"] <= 1
    steps = [
        {name: float(v.detach()) for name, v in objective(batch).items()} for batch in (text, pairs(objective, [0]))
    ]
    assert {"mlm", "rtd", "rtd_recall"} <= objective.step_figures(steps[0]).keys()
    assert set(objective.step_figures(steps[1])) == {"loss", "pap"}


def test_five_in_a_hundred_steps_are_pap() -> None:
    objective = model()
    drawn = Counter(objective.task(step, 7) for step in range(20_000))
    assert drawn["pap"] / 20_000 == pytest.approx(0.05, abs=0.006)  # four standard errors
    assert Counter(objective.task(step, 7) for step in range(20_000)) == drawn
    assert [objective.task(step, 8) for step in range(200)] != [objective.task(step, 7) for step in range(200)]


def test_a_handful_of_titles_is_learnt_by_heart(folder: Path) -> None:
    """Every right value comes nearer than every wrong one: MRR 1. Without looking at titles that is 0.96 of them."""
    torch.manual_seed(0)
    objective = build("electra_em_pap", {**TINY, **NO_DROPOUT, "most_values": 5, "initializer_range": 0.2})
    objective.attach("products", folder)
    optimizer = torch.optim.Adam(objective.parameters(), lr=5e-3)
    for step in range(150):
        objective(pairs(objective, list(range(6)), step))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    found = [objective.eval().metrics(pairs(objective, list(range(6)), step)) for step in range(1_000, 1_004)]
    rates = objective.rates({name: sum(float(one[name]) for one in found) for name in found[0]})
    assert rates["pap_accuracy"] == 1.0 and rates["pap_loss"] < 0.15


def test_without_pap_it_is_electra_with_entity_masking() -> None:
    objective = model(pap_share=0.0)
    assert [task.name for task in objective.tasks] == ["rtd"]
    assert {objective.task(step, 1) for step in range(300)} == {"rtd"}
    assert objective.config.data() == () == objective.config.resources()
    electra = build("electra", {**TINY, **NO_DROPOUT})
    assert objective.state_dict().keys() == electra.state_dict().keys()


TRAINING = {
    "steps": 14,
    "batch_size": 6,
    "learning_rate": 1e-3,
    "warmup_steps": 2,
    "log_every": 1,
    "evaluate_every": 7,
    "held_out_batches": 2,
    "checkpoint_every": 5,
    "tasks": {"pap": {"batch_size": 4, "longest": 64}},
}


def trained(folder: Path, state: Any = None) -> tuple[Any, dict[int, Any], list[tuple[int, str, dict[str, float]]]]:
    """A model after a short training, its states on the way, and what was reported."""
    objective = model(folder, pap_share=0.4, hidden_dropout=0.1)
    states: dict[int, Any] = {}
    entries: list[tuple[int, str, dict[str, float]]] = []
    train(
        objective,
        streams_of(objective, 40, 1),
        streams_of(objective, 12, 2),
        training_config(TRAINING),
        state=state,
        report=lambda step, split, figures: entries.append((step, split, dict(figures))),
        save=lambda step, state, held_out: states.update({step: state}),
    )
    return objective, states, entries


def test_a_run_resumes_with_every_bit(folder: Path) -> None:
    whole, states, entries = trained(folder)
    steps = Counter(name for _, split, figures in entries if split == "step" for name in figures)
    assert min(steps["loss_rtd"], steps["loss_pap"]) >= 3
    resumed, _, _ = trained(folder, states[5])
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    held_out = next(figures for step, split, figures in entries if split == "held_out")
    assert set(whole.held_out_figures) <= held_out.keys()


def test_other_products_are_not_resumed_with(folder: Path, tmp_path: Path) -> None:
    _, states, _ = trained(folder)
    other = tmp_path / "other"
    (other / "values").mkdir(parents=True)
    product_values().save(other / "values")
    with pytest.raises(ValueError, match="resources"):
        trained(other, states[5])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pap_share": 1.0}, r"pap_share must be in \[0, 1\)"),
        ({"margin": 0.0}, "margin must be positive"),
        ({"distance_norm": 3}, "distance_norm must be 1 or 2"),
        ({"negatives_per_value": 0}, "negatives_per_value must be at least 1"),
        ({"most_values": 0}, "most_values must be at least 1"),
        ({"negatives": "all"}, "negatives must be one of values, records"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check("electra_em_pap", TINY | settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_positions": 5}, "has 8 tokens, max_positions is 5; set products.max_length"),
        ({"vocab_size": 100}, "but vocab_size is 100; encode the products with the vocabulary"),
    ],
)
def test_pairs_that_do_not_fit_the_model_are_refused(folder: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pairs(model(folder, **settings), [0, 1, 2])


def test_pairs_without_their_values_are_refused() -> None:
    with pytest.raises(ValueError, match="attach them first"):
        pairs(model(), [0, 1])
