"""The page about a training run: every figure has its curve, at the right place, and the page loads nothing."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.training.curves import HEIGHT, POINTS, WIDTH, curves_page, draw_curves, panel, ticks
from tasks.training.run_spec import RunSpec
from tests.support.training.synthetic_examples import training


def spec() -> RunSpec:
    return RunSpec(
        name="0123abcd",
        store="",
        sources={},
        storage="",
        objective="ehealth",
        model={"num_layers": 2, "vocab_size": 100},
        training=training(steps=1_500),
        workers=2,
        cpus_per_worker=1,
        gpu=False,
    )


def entries() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for step in range(20, 1_501, 20):
        figures = {"loss": 60 + 3000 / step, "mlm": 5 + 50 / step, "learning_rate": 5e-4 * (1 - step / 1_500)}
        figures |= {"tokens_per_second": 15_000.0, "data_wait_share": 0.01, "skipped_steps": 0.0, "gradient_norm": 1.0}
        found.append({"step": step, "split": "train", "figures": figures})
        if step % 300 == 0:
            held = {"mlm_loss": 5 + 60 / step, "mts_accuracy": 0.4 - 50 / step, "mts_chance": 1 / 6}
            found.append({"step": step, "split": "held_out", "figures": held})
    return found


def test_figures_of_several_tasks_name_the_task() -> None:
    found = []
    for step in range(20, 201, 20):
        figures = {"loss_rtd": 40.0 - step / 10, "mlm": 5.0, "rtd": 0.4, "gradient_norm_rtd": 1.0}
        figures |= {"tokens_per_second": 9e3, "step_seconds": 0.2}
        if step % 60 == 0:  # PAP has fewer steps, and windows without any
            figures |= {"loss_pap": 3.0 - step / 200, "pap": 3.0 - step / 200, "gradient_norm_pap": 9.0}
            figures |= {"step_seconds_pap": 0.1, "tokens_per_second_pap": 1e4}
        found.append({"step": step, "split": "train", "figures": figures})
    held_out = {"loss": 9.0, "mlm_loss": 4.0, "rtd_loss": 0.3, "pap_loss": 2.0, "pap_accuracy": 0.7, "pap_chance": 0.5}
    found.append({"step": 200, "split": "held_out", "figures": held_out})
    given = spec().model_copy(update={"objective": "electra_em_pap"})
    page = curves_page(given, found)
    assert re.findall("<figcaption>(.*?)</figcaption>", page) == [
        "Loss (rtd)",
        "MLM",
        "RTD",
        "Loss (pap)",
        "PAP",
        "Loss",
        "MLM loss",
        "RTD loss",
        "PAP loss",
        "PAP accuracy",
        "Gradient norm before clipping (rtd)",
        "Tokens per second",
        "Seconds per step",
        "Gradient norm before clipping (pap)",
        "Seconds per step (pap)",
        "Tokens per second (pap)",
    ]
    note = given.progress(found)
    assert note is not None and note.done == 200
    assert note.note == "9,000 tokens/s, loss rtd 20, mlm 5, rtd 0.4"


def test_every_figure_has_a_panel_and_the_table_the_best() -> None:
    page = curves_page(spec(), entries())
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert captions == [
        "Loss",
        "MLM",
        "MLM loss",
        "MTS accuracy",
        "Learning rate",
        "Tokens per second",
        "Share of the time spent waiting for data",
        "Steps skipped so far",
        "Gradient norm before clipping",
    ]
    assert page.count("<polyline") == len(captions) + 1  # and one line of chance
    assert "step 1,500 of 1,500" in page and "on 2 CPU workers" in page
    assert re.search(r"MTS accuracy</th><td class=\"n\">0\.3667</td><td class=\"n\">0\.3667 \(step 1,500\)", page)
    assert ">0.1667<" in page
    assert "MFU) = model FLOPs of a step / (seconds a step x workers x peak FLOP/s)" in page
    assert "12 x layers x width x sum of length^2" in page
    assert not re.search(r"(src|href)=|https?://|@import|url\(", page)


def test_new_and_broken_runs_have_pages_too() -> None:
    assert "Not evaluated yet" in curves_page(spec(), [])
    broken = [{"step": step, "split": "skipped", "figures": {"loss": float("nan")}} for step in (7, 12)]
    broken.append({"step": 1, "split": "train", "figures": {"loss": float("nan")}})
    page = curves_page(spec(), broken)
    assert "no finite value" in page and "far above its median: 7, 12." in page


def test_rates_and_chances_of_nothing_are_left_out() -> None:
    """A held-out part without a single replaced entity has neither an accuracy nor a chance."""
    nan = float("nan")
    page = curves_page(
        spec(),
        [
            {"step": step, "split": "held_out", "figures": {"mts_accuracy": value, "mts_chance": value}}
            for step, value in ((100, nan), (200, nan))
        ],
    )
    assert "no finite value" in page
    partly = panel("x", {"x": [(0, nan), (50, 2.0), (100, 4.0)]}, [(0, nan), (50, 1.0), (100, 1.0)])
    assert [len(line.points.split()) for line in partly.lines] == [2, 2]


@pytest.mark.parametrize(
    ("values", "title", "expected"),
    [
        ((100.0, 100.0), "percent", ["50", "75", "100"]),
        ((0.97, 0.99), "share", ["0.97", "0.975", "0.98", "0.985", "0.99"]),
        ((0.0, 0.0), "share", ["0", "0.25", "0.5"]),
        ((100.0, 100.0), "loss", ["50", "75", "100", "125", "150"]),
        ((0.0, 0.0), "steps", ["0", "0.25", "0.5"]),
        ((0.0, 5e10), "FLOP/s", ["0", "20 G", "40 G", "60 G"]),
        ((0.0, 3e6), "bytes", ["0", "1 M", "2 M", "3 M"]),
    ],
)
def test_axis_of_shares_ends_where_shares_end(values: tuple[float, ...], title: str, expected: list[str]) -> None:
    drawn = panel("x", {"x": list(enumerate(values))}, y_title=title)
    assert [label for _, label in drawn.y_ticks] == expected
    assert all(0 <= place <= HEIGHT for place, _ in drawn.y_ticks)


def test_points_are_drawn_where_they_belong() -> None:
    drawn = panel("x", {"x": [(0, 0.0), (50, 2.0), (100, 4.0)]})
    assert drawn.lines[0].points == f"0.0,{HEIGHT:.1f} {WIDTH / 2:.1f},{HEIGHT / 2:.1f} {WIDTH:.1f},0.0"
    assert drawn.y_ticks[0] == (HEIGHT, "0") and drawn.y_ticks[-1] == (0.0, "4")
    assert drawn.x_ticks[0] == (0.0, "0") and drawn.x_ticks[-1] == (WIDTH, "100")


def test_long_curve_is_thinned_and_keeps_its_last_point() -> None:
    drawn = panel("x", {"x": [(step, float(step)) for step in range(10_000)]})
    points = drawn.lines[0].points.split()
    assert len(points) <= POINTS + 1
    assert points[-1].startswith(f"{WIDTH:.1f},")


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_hold_the_values_between_them(low: float, span: float) -> None:
    high = low + span
    labels = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1e-12)
    assert labels[0] <= low + slack and labels[-1] >= high - slack
    assert 2 <= len(labels) <= 8
    assert all(math.isfinite(label) for label in labels)


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0])
def test_a_flat_line_has_ticks_around_it(value: float) -> None:
    labels = ticks(value, value)
    assert labels[0] < value < labels[-1]


def test_single_point_is_drawn_as_a_dot() -> None:
    found = [{"step": 10, "split": "train", "figures": {"loss": 5.0}}]
    assert curves_page(spec(), found).count("<circle") == 1
    found.append({"step": 20, "split": "train", "figures": {"loss": 4.0}})
    assert "<circle" not in curves_page(spec(), found)


def test_spent_time_is_no_rate_of_held_out_text() -> None:
    found = [
        {"step": 10, "split": "train", "figures": {"loss": 5.0, "cpu_seconds": 60.0}},
        {"step": 10, "split": "held_out", "figures": {"loss": 4.0, "mlm_accuracy": 0.2, "cpu_seconds": 60.0}},
    ]
    page = curves_page(spec(), found)
    assert re.findall("<figcaption>(.*?)</figcaption>", page) == ["Loss", "Loss", "MLM accuracy", "CPU seconds so far"]
    assert ">chance</th>" not in page and ">chance</th>" in curves_page(spec(), entries())


def test_count_of_held_out_text_is_drawn_though_it_is_above_every_share() -> None:
    figures = {"loss": 4.0, "consistency_unseen_accuracy": 0.5, "consistency_unseen_count": 20.0}
    found = [{"step": 10, "split": "train", "figures": {"loss": 5.0}}]
    found += [{"step": step, "split": "held_out", "figures": figures} for step in (10, 20)]
    page = curves_page(spec(), found)  # the same rows are counted each time, so the line is flat
    assert ">count</text>" in page and ">20</td>" in page and "20.0000" not in page
    drawn = panel("", {"any": [(1.0, 20.0), (2.0, 20.0)]}, y_title="share")
    assert next(label for _, label in drawn.y_ticks) == "10"


def test_curves_are_drawn_from_the_figures_there_are(tmp_path: Path) -> None:
    entries = [{"step": step, "split": "train", "figures": {"mlm": 5.0 / step, "rtd": 0.5}} for step in (1, 2, 3)]
    entries.append({"step": 3, "split": "held_out", "figures": {"mts_accuracy": 0.4, "mts_chance": 1 / 6}})
    draw_curves(entries, tmp_path / "curves.png", ("mlm", "csp"))
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
