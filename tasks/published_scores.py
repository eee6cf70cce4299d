"""The rows of eHealth's Tables 4 and 5 (Wang et al., 2021), in per cent, for the score tables of suites.

They are the paper's; nothing here was measured by this project.
"""

from __future__ import annotations

from collections.abc import Mapping

CBLUE_TASKS = ("cmeee", "cmeie", "chip-cdn", "chip-ctc", "chip-sts", "kuake-qic", "kuake-qtr", "kuake-qqr")

TABLE_4: Mapping[str, tuple[float, ...]] = {
    "BERT-base": (66.5, 60.6, 69.7, 68.6, 84.7, 85.2, 59.2, 82.5),
    "ELECTRA-base": (65.1, 60.4, 69.9, 67.7, 84.4, 85.2, 61.8, 84.0),
    "MacBERT-base": (66.8, 61.5, 69.7, 69.1, 84.4, 86.0, 61.0, 83.5),
    "RoBERTa-wwm-ext-base": (66.7, 61.4, 69.3, 68.3, 84.2, 86.0, 60.9, 82.7),
    "ELECTRA-large": (66.1, 59.3, 70.8, 68.9, 85.1, 84.1, 62.0, 85.7),
    "MacBERT-large": (67.6, 62.2, 70.9, 69.7, 86.5, 85.7, 62.5, 83.5),
    "RoBERTa-wwm-ext-large": (67.3, 62.2, 70.6, 70.6, 85.4, 86.7, 61.7, 86.1),
    "MC-BERT-base": (66.6, 60.7, 70.1, 69.1, 85.4, 85.3, 61.6, 82.3),
    "PCL-MedBERT-base": (66.6, 60.8, 69.9, 70.4, 84.8, 85.3, 60.2, 83.3),
    "eHealth-base": (67.0, 61.6, 71.2, 70.5, 86.2, 87.4, 63.5, 85.5),
}
"""Test scores of CBLUE by the tasks of `CBLUE_TASKS`: the single best run on dev."""

QA_TASKS = ("cmedqnli", "webmedqa", "nlpec")

TABLE_5: Mapping[str, tuple[tuple[float, float], ...]] = {
    "BERT-base": ((96.4, 96.4), (79.0, 79.2), (66.0, 50.9)),
    "ELECTRA-base": ((96.0, 95.9), (79.1, 79.1), (68.2, 53.8)),
    "MacBERT-base": ((96.3, 96.2), (79.3, 79.5), (67.3, 53.6)),
    "RoBERTa-base": ((96.2, 96.2), (79.0, 79.5), (67.7, 51.3)),
    "ELECTRA-large": ((96.4, 96.2), (78.8, 79.9), (67.4, 54.5)),
    "MacBERT-large": ((96.3, 96.3), (78.7, 78.9), (69.2, 54.3)),
    "RoBERTa-large": ((96.3, 96.2), (78.8, 79.2), (70.1, 54.3)),
    "MC-BERT-base": ((96.4, 96.5), (79.2, 79.8), (65.6, 52.2)),
    "PCL-MedBERT-base": ((96.3, 96.2), (78.6, 79.1), (63.9, 49.8)),
    "eHealth-base": ((97.3, 97.0), (80.0, 80.5), (70.4, 60.4)),
}
"""(dev, test) of the medical QA tasks by those of `QA_TASKS`: means of the best three runs on dev."""
