"""Fits the confidence of answers (tasks/normalise/answers/confidence.py), and shows how well calibrated it is.

    python -m benchmarks.terms.confidence FOLDER [--write] [--held-out] [--output FILE.md] [--picture FILE.png]

FOLDER is what normalise/index printed. Answers are labelled from these sources:

- everyday diagnoses of tests/support/terms, all tuning lines, also as pairs joined by 、
- the texts beside them that are no diagnoses
- queries of the dev part of the open benchmark, found in an index without their names
- names of drugs, tests, plants and sites of CMeKG: whatever code they get is wrong

The weights of the table come from all of them. The page shows each fifth of the tuning lines with weights that were
fitted without it; no line is in two fifths, in pairs neither. With --held-out it has totals of the lines that are held
out, with the weights of the table; nothing may be chosen by them.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.pages import publish, table
from benchmarks.terms.normalisation import prepare
from kg.sources import cmekg
from tasks.normalise.answers import CONFIDENCE, SIGNS, Calibration, read_calibration
from tasks.normalise.normaliser import Normaliser
from tasks.retrieve.embedded import EmbeddedIndex

LABELLED = Path(__file__).parents[2] / "tests" / "support" / "terms"
WEIGHTS = {"diagnoses": 1.0, "pairs": 0.25, "no diagnosis": 2.0, "graph": 0.5, "other things": 0.1}
"""Weight of an answer of each source: what is rare in a column of diagnoses counts least, and a text that is no
diagnosis twice, so that half a name is not enough."""
EVERYDAY = ("diagnoses", "pairs", "no diagnosis")
TUNING = ("tuning", "fields_tuning", "fields_more_tuning", "fields_new_tuning")
HELD_OUT = ("held_out", "fields_new_held_out")
FOLDS = 5
SAMPLED = 400
"""Names of each kind of thing that is no disease."""
BINS = 10
THRESHOLDS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Floats = npt.NDArray[np.float64]


class Labelled(NamedTuple):
    """Answers of one source."""

    source: str
    signs: Floats
    """float64 [answers, signs]"""
    right: Floats
    """1 for an answer of the right category, else 0."""


_MARK = 2.0**-10
"""Fraction of each number, by which it is known."""


class _Numbered(Calibration):
    """Keeps the signs of every answer, whose confidence is then the number of its signs."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(SIGNS, 0.0))
        self.signs: list[Sequence[float]] = []

    def confidence(self, signs: Sequence[float]) -> float:
        self.signs.append(signs)
        return len(self.signs) - 1 + _MARK


def main() -> None:
    """Fit, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of an index")
    parser.add_argument("--write", action="store_true", help="write the table of weights")
    parser.add_argument("--held-out", action="store_true", help="show totals of the held-out lines")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    opened = Normaliser(options.folder, threshold=0), Normaliser(options.folder, threshold=0, refuses=False)
    folds = [everyday(*opened, TUNING, fold) for fold in range(FOLDS)]
    others = [graph(), things(options.folder)]
    sources = [one for fold in folds for one in fold] + others
    weights = fit(sources)
    if options.write:
        Calibration(weights).write(CONFIDENCE)
    judged = []
    for at, fold in enumerate(folds):
        # Each fold is judged by weights that were fitted on everything but that fold.
        without = fit([*(one for place, own in enumerate(folds) if place != at for one in own), *others])
        judged += [(one, confidences(without, one)) for one in fold]
    page = [
        "# Confidence of answers without a ranker",
        "",
        f"{date.today()}, `python -m benchmarks.terms.confidence`. A confidence is the probability that the "
        "three-character category of an answer is right. The tuning lines of the everyday diagnoses, alone and as "
        "pairs joined by 、, and of the texts that deserve no code: each fifth judged by weights fitted without it. "
        "Texts that deserve no code count without the cues that refuse most of them, so that the confidence has to.",
        "",
        *_figures("tuning, cross-fitted", judged),
    ]
    bars = [("tuning, cross-fitted", judged)]
    if options.held_out:
        calibration = read_calibration().weights
        for half, title in zip(HELD_OUT, ("single names, held out", "fields, held out"), strict=True):
            held_out = [(one, confidences(calibration, one)) for one in everyday(*opened, (half,))]
            bars.append((title, held_out))
            page += ["", *_figures(title, held_out)]
    page += ["", *table(["sign", "meaning", "weight"], [[s, SIGNS[s], f"{weights[s]:.2f}"] for s in SIGNS])]
    counts = {name: sum(len(one.right) for one in sources if one.source == name) for name in WEIGHTS}
    page += ["", f"Answers: {', '.join(f'{count:,} of {name}' for name, count in counts.items())}."]
    publish([*page, ""], options.output)
    if options.picture:
        draw(bars, options.picture)


def everyday(reading: Normaliser, coding: Normaliser, halves: Sequence[str], fold: int | None = None) -> list[Labelled]:
    """Return the answers to the everyday diagnoses, and to texts that are no diagnoses; of all lines, or of a fold.

    Args:
        coding: a normaliser that refuses nothing, for the texts that are no diagnoses.
    """
    own = slice(fold, None, None if fold is None else FOLDS)
    diagnoses, others = (
        [row for half in halves for row in _rows(f"{name}_{half}.csv")][own] for name in ("diagnoses", "no_codes")
    )
    gold = [set(row["codes"].replace("+", "/").split("/")) for row in diagnoses]
    texts = [row["query"] for row in diagnoses]
    # Of several diagnoses in a field only the first one's label is known, so pairs are of single names.
    single = {
        row["query"] for half in halves if not half.startswith("fields") for row in _rows(f"diagnoses_{half}.csv")
    }
    places = [at for at, text in enumerate(texts) if text in single]
    order = random.Random(0).sample(places, len(places))
    pairs = list(zip(order[::2], order[1::2], strict=False))
    nonsense = [row["query"] for row in others if row["status"] == "not_diagnosis"]
    return [
        labelled("diagnoses", reading, texts, gold, is_first=True),
        labelled(
            "pairs",
            reading,
            [f"{texts[one]}、{texts[other]}" for one, other in pairs],
            [gold[one] | gold[other] for one, other in pairs],
        ),
        labelled("no diagnosis", coding, nonsense, [set()] * len(nonsense)),
    ]


def graph() -> Labelled:
    """Return the answers to the dev part of the open benchmark, in an index that lacks its names."""
    data = prepare()
    with tempfile.TemporaryDirectory() as folder:
        EmbeddedIndex.build(data.full, folder)
        mentions = data.benchmark.queries("dev")
        gold = [{code[:3] for code in mention.codes} for mention in mentions]
        return labelled("graph", Normaliser(folder, threshold=0), [mention.text for mention in mentions], gold)


def things(folder: Path) -> Labelled:
    """Return the answers to names of drugs, tests, plants and sites, sampled alike every time."""
    subjects = cmekg.load()
    kinds = (
        sorted(head for head, own in subjects.items() if "药品类型" in own or "成份" in own),
        sorted(head for head, own in subjects.items() if "界" in own),
        *(sorted({name for own in subjects.values() for name in own.get(relation, ())}) for relation in ("检查",
        "常见发病部位")),
    )  # fmt: skip
    texts = [text for names in kinds for text in random.Random(0).sample(names, min(SAMPLED, len(names)))]
    names = EmbeddedIndex(folder).are_names(texts)
    # Some tests of CMeKG are diagnoses (脊索瘤): those that the list names are left out.
    kept = [text for text, is_name in zip(texts, names, strict=True) if not is_name]
    return labelled("other things", Normaliser(folder, threshold=0), kept, [set()] * len(kept))


def labelled(
    source: str, normaliser: Normaliser, texts: Sequence[str], gold: Sequence[set[str]], is_first: bool = False
) -> Labelled:
    """Return the answers to texts, of which each has the right categories.

    Args:
        is_first: labels are of the first diagnosis of a text only. What else is said of it is neither right nor wrong,
            and left out; without a right answer, the first one is wrong.
    """
    # A normaliser remembers its answers, so their numbers must stay.
    numbered = normaliser.calibration
    if not isinstance(numbered, _Numbered):
        normaliser.calibration = numbered = _Numbered()
    signs, right = [], []
    for one, own in zip(normaliser.normalise(texts), gold, strict=True):
        # Of a short form that is left open, only a share of the confidence is kept, which is no number.
        known = [each for each in one.answers if each.confidence % 1 == _MARK]
        if is_first:
            first = sorted(known, key=lambda each: each.confidence)[:1]
            known = [each for each in known if each.code[:3] in own] or first
        for answer in known:
            signs.append(numbered.signs[int(answer.confidence)])
            right.append(answer.code[:3] in own)
    return Labelled(source, np.array(signs, dtype=float).reshape(-1, len(SIGNS)), np.array(right, dtype=float))


def fit(sources: Sequence[Labelled]) -> dict[str, float]:
    """Return the weight of each sign."""
    signs = np.concatenate([one.signs for one in sources])[:, 1:]
    right = np.concatenate([one.right for one in sources])
    weights = np.concatenate([np.full(len(one.right), WEIGHTS[one.source]) for one in sources])
    model = LogisticRegression(C=1.0, max_iter=10_000).fit(signs, right, sample_weight=weights)
    return dict(zip(SIGNS, [float(model.intercept_[0]), *model.coef_[0].tolist()], strict=True))


def confidences(weights: dict[str, float], answers: Labelled) -> Floats:
    """Return the confidence of each answer."""
    calibration = Calibration(weights)
    return np.array([calibration.confidence(signs) for signs in answers.signs])


def calibration_error(confidence: Floats, right: Floats) -> float:
    """Return the expected calibration error: distance of mean confidence and share of right answers in `BINS` bins of
    equal width, weighted with their answers."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    error = 0.0
    for place in range(BINS):
        own = bins == place
        if own.any():
            error += own.mean() * abs(confidence[own].mean() - right[own].mean())
    return float(error)


Judged = Sequence[tuple[Labelled, Floats]]


def _joined(judged: Judged) -> tuple[Floats, Floats]:
    return np.concatenate([one for _, one in judged]), np.concatenate([one.right for one, _ in judged])


def _figures(title: str, judged: Judged) -> list[str]:
    confidence, right = _joined(judged)
    true = np.concatenate([np.full(len(c), one.source != "no diagnosis") for one, c in judged])
    rows = []
    for threshold in THRESHOLDS:
        coded = confidence >= threshold
        rows.append(
            [
                f"{threshold:.1f}",
                f"{(coded & true).sum() / true.sum():.3f}",
                f"{right[coded & true].mean():.3f}",
                f"{(coded & (right > 0)).sum() / (right > 0).sum():.3f}",
                f"{(coded & ~true).sum()} of {(~true).sum()}",
            ]
        )
    return [
        f"## {title[0].upper()}{title[1:]}",
        "",
        f"{len(right)} answers, {right.mean():.3f} right, mean confidence {confidence.mean():.3f}, expected "
        f"calibration error {calibration_error(confidence, right):.3f} "
        f"({calibration_error(confidence[true], right[true]):.3f} of diagnoses alone), area under the ROC curve "
        f"{roc_auc_score(right, confidence):.3f}.",
        "",
        *table(["threshold", "diagnoses coded", "of these right", "right ones kept", "no diagnoses coded"], rows),
    ]


def draw(bars: Sequence[tuple[str, Judged]], path: Path) -> None:
    """Draw a reliability diagram beside another: share of right answers by confidence, with the number of answers."""
    figure = Figure(figsize=(4.4 * len(bars), 4.2), layout="constrained")
    for place, (title, judged) in enumerate(bars, start=1):
        confidence, right = _joined(judged)
        bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
        axes = figure.add_subplot(1, len(bars), place)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
        for own in (bins == at for at in range(BINS) if (bins == at).any()):
            mean, share, count = confidence[own].mean(), right[own].mean(), int(own.sum())
            spread = np.sqrt(max(share * (1 - share), 0.25 / count) / count)
            axes.errorbar(mean, share, yerr=spread, color="tab:blue", marker="o", capsize=3)
            axes.annotate(f"{count}", (mean, share), textcoords="offset points", xytext=(7, -10), fontsize=8)
        axes.set(xlim=(0, 1), ylim=(-0.05, 1.05), xlabel="confidence", ylabel="share of right answers", title=title)
    figure.savefig(path, dpi=110)


def _rows(name: str) -> list[dict[str, str]]:
    with (LABELLED / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
