"""Recall by kind, precision and speed of de-identification on labelled lines: rules alone, and with each recogniser.

    python benchmarks/text/deidentify_lines.py tests/support/text/identifiers_tuning.jsonl
    python benchmarks/text/deidentify_lines.py LINES.jsonl --half odd --model model.npz --output PAGE.md
    python benchmarks/text/deidentify_lines.py tests/support/text/medical_values.jsonl --profile hipaa

Whole: every character of an identifier is replaced (blanks and hyphens inside it do not count), as whatever kind.
Precision: the share of replacements that lie on an identifier of any kind. Values: what is marked {value:…} must stay;
one is lost if any character of it is replaced, by another kind than dates and ages. Each line is a document of its own.
Speed is that of the lines repeated, in UTF-8 bytes per CPU second of one process; a line holds more identifiers than
a note.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import publish
from tasks.deidentify import deidentify
from tasks.deidentify.explain import explain
from tasks.deidentify.forms.identifier import PROFILES
from tasks.deidentify.kinds import kinds_of
from tasks.deidentify.plan import Plan
from tasks.deidentify.recogniser import encoder, shipped_recogniser, tagging
from tasks.deidentify.recogniser.tagging import Model
from tests.support.text.labelled_identifiers import Sentence, read_marked

POLICY = frozenset(("date", "birth_date", "age"))
"""Kinds that a profile treats whatever they mean."""
VALUE = "value"
NOT_COUNTED = frozenset(" -\u3000")


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=Path, help="JSONL with `marked` lines; the first line describes the file")
    parser.add_argument("--half", choices=("all", "even", "odd"), default="all")
    parser.add_argument("--model", type=Path, help="weights other than those that are shipped")
    parser.add_argument("--encoder", type=Path, help="weights of the encoder other than those that are shipped")
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU seconds of each measurement of speed")
    parser.add_argument("--misses", action="store_true", help="print what was missed and what was wrong")
    parser.add_argument("--output", type=Path, help="write the page here too")
    parser.add_argument("--profile", choices=PROFILES, default="minimal", help="kinds that are treated")
    options = parser.parse_args()
    if options.model:
        tagging.MODEL = options.model
    if options.encoder:
        encoder.WEIGHTS = options.encoder
    rows = [json.loads(line)["marked"] for line in options.lines.read_text(encoding="utf-8").splitlines()[1:]]
    marked = rows if options.half == "all" else rows[options.half == "odd" :: 2]
    sentences = [read_marked(each) for each in marked]
    publish(render(sentences, kinds_of(options.profile), options.seconds, options.misses), options.output)


def render(sentences: Sequence[Sentence], treated_kinds: frozenset[str], seconds: float, misses: bool) -> list[str]:
    """The tables in Markdown."""
    plans = {
        "rules alone": Plan(treated_kinds, recogniser=False),
        "with the recogniser": Plan(treated_kinds),
        "and the encoder": Plan(treated_kinds, encoder=True),
    }
    scores = {name: score(sentences, plan, misses) for name, plan in plans.items()}
    kinds = sorted({kind for labelled, _, _, _ in scores.values() for kind in labelled} - {VALUE})
    lines = ["| | labelled | " + " | ".join(plans) + " |", "|---|---|" + "---|" * len(plans)]
    for treated in (True, False):
        for kind in (kind for kind in kinds if (kind in treated_kinds) is treated):
            figures = [f"{whole[kind]}" for _, whole, _, _ in scores.values()]
            count = next(iter(scores.values()))[0][kind]
            lines.append(f"| {kind}{'' if treated else ' (not treated)'} | {count} | {' | '.join(figures)} |")
    shares, precisions, speeds = [], [], []
    for name, (labelled, whole, right, replaced) in scores.items():
        most, found = (sum(counts[kind] for kind in treated_kinds) for counts in (labelled, whole))
        shares.append(f"{found} ({found / max(1, most):.1%})")
        precisions.append(f"{right} of {replaced} ({right / max(1, replaced):.1%})")
        speeds.append(f"{speed(sentences, plans[name], seconds):.2f}")
    total = sum(next(iter(scores.values()))[0][kind] for kind in treated_kinds)
    lost = [f"{labelled[VALUE] - whole[VALUE]}" for labelled, whole, _, _ in scores.values()]
    lines += [
        f"| **treated kinds, whole** | {total} | {' | '.join(shares)} |",
        f"| **replacements on identifiers** | | {' | '.join(precisions)} |",
        f"| **values lost** | {next(iter(scores.values()))[0][VALUE]} | {' | '.join(lost)} |",
        f"| **MB a CPU second** | | {' | '.join(speeds)} |",
    ]
    return lines


def score(sentences: Sequence[Sentence], plan: Plan, misses: bool) -> tuple[Counter[str], Counter[str], int, int]:
    """Return the identifiers labelled and found whole by kind, the replacements that lie on one, and all of them.

    Values count as found where they stay.
    """
    labelled, whole = Counter[str](), Counter[str]()
    right = replaced = 0
    for text, spans in sentences:
        explained = explain(text, plan)[1]
        found = [(one.start, one.end) for one in explained]
        covered = {at for start, end in found for at in range(start, end)}
        changed = {at for one in explained if one.kind not in POLICY for at in range(one.start, one.end)}
        identifying = {at for start, end, kind in spans if kind != VALUE for at in range(start, end)}
        for start, end, kind in spans:
            labelled[kind] += 1
            if kind == VALUE:
                is_whole = changed.isdisjoint(range(start, end))
            else:
                is_whole = all(at in covered or text[at] in NOT_COUNTED for at in range(start, end))
            whole[kind] += is_whole
            if misses and not is_whole and (kind in plan.kinds or kind == VALUE):
                print(f"missed {kind} {text[start:end]!r}: {text}", file=sys.stderr)
        for start, end in found:
            replaced += 1
            lies_on_one = not identifying.isdisjoint(range(start, end))
            right += lies_on_one
            if misses and not lies_on_one:
                print(f"wrong {text[start:end]!r}: {text}", file=sys.stderr)
    return labelled, whole, right, replaced


def speed(sentences: Sequence[Sentence], plan: Plan, seconds: float) -> float:
    """Return the speed on the lines, joined into documents of twenty, in MB a CPU second."""
    texts = ["\n".join(each.text for each in sentences[at : at + 20]) for at in range(0, len(sentences), 20)]
    deidentify(texts[0], plan)  # loads dictionary, weights and machine code
    size, begin = 0, time.process_time()
    recogniser = shipped_recogniser(plan.encoder)
    for text in itertools.cycle(texts):
        if isinstance(recogniser, Model):
            recogniser.forget()  # each text is a new one
        deidentify(text, plan)
        size += len(text.encode())
        if (spent := time.process_time() - begin) > seconds:
            return size / spent / 1e6
    return 0.0


if __name__ == "__main__":
    main()
