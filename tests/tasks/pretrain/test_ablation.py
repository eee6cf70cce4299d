"""The table of an ablation: the rows of Table 6, columns for the figures there are, and clear errors."""

from __future__ import annotations

import pytest

from infra.errors import UserError
from models.objectives import ablations
from tasks.pretrain.ablation import as_markdown, check_scores, tabulate

FIGURES = {
    "full": {"mlm_loss": 2.0, "rtd_balanced_accuracy": 0.75, "mts_accuracy": 0.5, "csp_accuracy": 0.9},
    "without_csp": {"mlm_loss": 2.1, "rtd_balanced_accuracy": 0.7, "mts_accuracy": 0.55},
    "without_mts": {"mlm_loss": 2.2, "rtd_balanced_accuracy": float("nan"), "csp_accuracy": 0.95},
    "without_csp_mts": {"mlm_loss": 2.3, "rtd_balanced_accuracy": 0.8, "rtd_recall": 0.1},
}
PAPER = {"full": {"CMeEE": 66.6, "CMeIE": 61.6}, "without_csp_mts": {"CMeEE": 65.6}}


def test_the_settings_are_the_papers() -> None:
    assert [setting.title for setting in ablations("ehealth")] == [
        "The full setting",
        "w/o CSP",
        "w/o MTS",
        "w/o CSP & MTS",
    ]
    _, without_csp, without_mts, without_both = ablations("ehealth")
    assert without_both.overrides == {**without_csp.overrides, **without_mts.overrides}


def test_rows_are_settings_and_columns_the_figures_there_are() -> None:
    columns, rows = tabulate("ehealth", FIGURES, PAPER)
    assert columns == [
        *["Model", "CMeEE", "CMeIE", "Avg."],
        *["MLM loss", "RTD bal. acc.", "MTS acc.", "CSP acc."],
    ]
    assert [list(row.values()) for row in rows] == [
        ["The full setting", "66.6", "61.6", "64.1", "2.0000", "0.7500", "0.5000", "0.9000"],
        ["w/o CSP", "–", "–", "–", "2.1000", "0.7000", "0.5500", "–"],
        ["w/o MTS", "–", "–", "–", "2.2000", "–", "–", "0.9500"],
        ["w/o CSP & MTS", "65.6", "–", "–", "2.3000", "0.8000", "–", "–"],
    ]


def test_chance_stands_below_the_figures_that_have_one() -> None:
    figures = {
        "full": {"mlm_loss": 2.0, "mts_accuracy": 0.5, "mts_chance": 1 / 6, "csp_accuracy": 0.9, "csp_chance": 0.02},
        "without_mts": {"mlm_loss": 2.2, "csp_accuracy": 0.95, "csp_chance": 0.02},
    }
    columns, rows = tabulate("ehealth", figures, {"full": {"CMeEE": 66.6}})
    assert columns == ["Model", "CMeEE", "MLM loss", "MTS acc.", "CSP acc."]
    assert list(rows[-1].values()) == ["By chance", "–", "–", "0.1667", "0.0200"] and len(rows) == 3


def test_without_scores_the_table_has_the_figures_of_pretraining() -> None:
    columns, rows = tabulate("ehealth", {"full": {"mlm_loss": 2.0}}, {})
    assert as_markdown(columns, rows) == "| Model | MLM loss |\n| --- | ---: |\n| The full setting | 2.0000 |\n"


def test_unknown_setting_error_lists_the_settings() -> None:
    with pytest.raises(UserError, match=r"unknown setting 'w/o CSP'\. Choose from full, without_csp, "):
        check_scores("ehealth", {"w/o CSP": {"CMeEE": 66.5}})
