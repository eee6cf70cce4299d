"""De-identification beside Presidio, on the same labelled lines: recall, precision and MB per CPU second.

    python benchmarks/text/deidentify_presidio.py --lines tests/support/text/identifiers_notes.jsonl \
        --values tests/support/text/medical_values.jsonl --presidio PYTHON --output benchmarks/results/text/NAME.md

FILE holds labelled lines as tests/support/text/identifiers_tuning.jsonl does. PYTHON is an interpreter that has
presidio-analyzer and jieba (`pip install presidio-analyzer jieba`); the peer is a process of its own.

Presidio ships no recogniser for Chinese text, so it gets those that one would write for it in an afternoon, each with a
pattern, context words and, where there is one, a check digit (`RECOGNISERS`), its own for e-mail, web, IP and MAC
addresses, cards and telephones (region CN), and the names that jieba's part-of-speech tagger finds. Its NLP engine is
spaCy's Chinese tokeniser with jieba, without a trained model: spaCy's are not on PyPI.

A labelled identifier counts as found if all its characters are covered (blanks and hyphens inside do not count), by a
find of any kind; a find is right if it lies on an identifier of any kind. A medical value is lost if any of it
is covered, dates and ages of ours left out, which a profile treats whatever they mean. Our speed is that of
`deidentify`, each line a document that it has not seen; Presidio's is that of `analyze`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tasks.deidentify.plan import Plan
    from tests.support.text.labelled_identifiers import Sentence

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 3.0
"""CPU seconds of each measurement of speed, at least."""

# kind of Presidio, pattern, score, context words
RECOGNISERS = (
    ("MOBILE", r"(?<!\d)1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)", 0.7, ("手机", "电话", "联系")),
    ("LANDLINE", r"(?<!\d)0\d{2,3}-?\d{7,8}(?!\d)", 0.6, ("电话", "传真", "座机")),
    ("IDENTITY", r"(?<!\d)[1-8]\d{16}[\dXx](?!\d)", 0.6, ("身份证", "证件")),
    ("PASSPORT", r"(?<![A-Za-z0-9])[EGD]\d{8}(?!\d)", 0.5, ("护照",)),
    ("BANK_CARD", r"(?<!\d)62\d{14,17}(?!\d)", 0.5, ("卡号", "账号", "银行")),
    ("QQ", r"(?<!\d)[1-9]\d{4,10}(?!\d)", 0.05, ("QQ", "qq")),
    ("WECHAT", r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9_\-]{5,19}", 0.05, ("微信", "vx")),
    ("RECORD", r"(?<=号)[：:]?[A-Z]{0,3}\d{5,12}", 0.6, ("住院", "门诊", "病历", "病理", "就诊")),
    ("RECORD", r"(?<=床号)[：:]?\s?\d{1,3}", 0.6, ("床",)),
    ("ADDRESS", r"[\u4e00-\u9fff]{2,8}(?:省|市|自治区)[\u4e00-\u9fff]{1,10}(?:区|县|市|镇|乡)"
     r"[\u4e00-\u9fff]{0,12}(?:路|街|道|村)?(?:\d{1,5}号)?(?:\d{1,3}[栋幢]\S{0,10})?", 0.6, ("住址", "地址", "家住")),
    ("ADDRESS", r"[\u4e00-\u9fff]{2,6}(?:路|街|大道)\d{1,5}号", 0.5, ("住", "地址")),
    ("NAME", r"(?<=患者)[\u4e00-\u9fff]{2,3}(?=[，,（(])", 0.6, ("患者",)),
    ("NAME", r"(?<=姓名[：:])\s{0,3}[\u4e00-\u9fff]{2,4}", 0.8, ("姓名",)),
    ("NAME", r"(?<=签名[：:])\s{0,3}[\u4e00-\u9fff]{2,3}", 0.8, ("签名",)),
    ("DATE", r"(?<!\d)(?:19|20)\d\d(?:年\d{1,2}月\d{1,2}日|[-/.]\d{1,2}[-/.]\d{1,2})", 0.6, ("日期", "时间", "入院")),
    ("DATE", r"(?<!\d)\d{1,2}月\d{1,2}日", 0.5, ("日期", "时间")),
    ("PLATE", r"[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z]·?[A-Z0-9]{5,6}", 0.6, ("车牌",)),
    ("POSTCODE", r"(?<!\d)\d{6}(?!\d)", 0.05, ("邮编", "邮政")),
)  # fmt: skip
OWN = ("EmailRecognizer", "UrlRecognizer", "IpRecognizer", "MacAddressRecognizer", "CreditCardRecognizer")
"""Presidio's recognisers that need no language; that of telephones comes with the region CN."""
NOT_COUNTED = frozenset(" -\u3000")
"""Characters in an identifier that need not be covered."""
POLICY = frozenset(("date", "birth_date", "age"))
"""Kinds that a profile treats whatever they mean."""
THRESHOLD = 0.35
"""Least score of a find: above a pattern without its context words, below one with them."""


def main() -> None:
    """Measure, print, save; or, as the peer's process, find and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=Path, default=REPOSITORY / "tests/support/text/identifiers_tuning.jsonl")
    parser.add_argument("--values", type=Path, help="lines whose marked medical values must stay")
    parser.add_argument("--note", default="", help="a sentence for the page: what else the machine did, for example")
    parser.add_argument("--presidio", help="interpreter that has presidio-analyzer and jieba")
    parser.add_argument("--output", type=Path, help="write the page here too")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer(*json.load(sys.stdin))
    else:
        sys.path.insert(0, str(REPOSITORY))
        compare(options.lines, options.values, options.presidio, options.note, options.output)


def measured(find: Callable[[str], object], texts: Sequence[str]) -> float:
    """MB of UTF-8 per CPU second; the texts are repeated until `SECONDS` have gone by."""
    size, begin = 0, time.process_time()
    while (spent := time.process_time() - begin) < SECONDS:
        for text in texts:
            find(text)
            size += len(text.encode())
    return size / spent / 1e6


def peer(texts: list[str], values: list[str]) -> None:
    """Run under Presidio's interpreter: print the spans of each text, the speed and the versions as JSON.

    Args:
        texts: lines with identifiers, on which the speed is measured.
        values: lines with medical values.
    """
    import presidio_analyzer
    import presidio_analyzer.predefined_recognizers as predefined
    import spacy
    from presidio_analyzer import AnalyzerEngine, EntityRecognizer, Pattern, PatternRecognizer, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    class Identity(PatternRecognizer):
        def validate_result(self, pattern_text: str) -> bool:
            weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
            total = sum(int(digit) * weight for digit, weight in zip(pattern_text, weights, strict=False))
            return "10X98765432"[total % 11] == pattern_text[-1].upper()

    class JiebaNames(EntityRecognizer):
        def load(self) -> None:
            import jieba.posseg

            self.cut = jieba.posseg.cut

        def analyze(self, text: str, entities: object, nlp_artifacts: object = None) -> list[object]:
            found, place = [], 0
            for word, tag in self.cut(text):
                if tag == "nr" and len(word) > 1:
                    found.append(presidio_analyzer.RecognizerResult("NAME", place, place + len(word), 0.5))
                place += len(word)
            return found

    with tempfile.TemporaryDirectory() as folder:
        model = spacy.blank("zh", config={"nlp": {"tokenizer": {"segmenter": "jieba"}}})
        model.to_disk(folder)
        settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": "zh", "model_name": folder}]}
        engine = NlpEngineProvider(nlp_configuration=settings).create_engine()
        registry = RecognizerRegistry(supported_languages=["zh"])
        for name in OWN:
            registry.add_recognizer(getattr(predefined, name)(supported_language="zh"))
        registry.add_recognizer(predefined.PhoneRecognizer(supported_language="zh", supported_regions=["CN"]))
        for place, (kind, pattern, score, context) in enumerate(RECOGNISERS):
            made = Identity if kind == "IDENTITY" else PatternRecognizer
            registry.add_recognizer(
                made(
                    supported_entity=kind,
                    name=f"{kind} {place}",
                    supported_language="zh",
                    patterns=[Pattern(kind, pattern, score)],
                    context=list(context),
                )
            )
        registry.add_recognizer(JiebaNames(supported_entities=["NAME"], supported_language="zh", name="jieba"))
        analyzer = AnalyzerEngine(nlp_engine=engine, registry=registry, supported_languages=["zh"])

        def find(text: str) -> list[tuple[int, int]]:
            found = analyzer.analyze(text, language="zh", score_threshold=THRESHOLD)
            return [(one.start, one.end) for one in found]

        spans = [find(text) for text in (*texts, *values)]
        speed = measured(find, texts)
    versions = f"presidio-analyzer {_version('presidio_analyzer')}, spaCy {spacy.__version__}"
    print(json.dumps({"spans": spans, "speed": speed, "versions": versions}))


def _version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)


def compare(lines: Path, values: Path | None, presidio: str | None, note: str, output: Path | None) -> None:
    """Ours, by rules alone and in three profiles, and the peer, on the same lines, in one run."""
    from benchmarks.pages import cpu_name, publish, table
    from tasks.deidentify.kinds import KINDS, MINIMAL, kinds_of
    from tasks.deidentify.plan import Plan
    from tests.support.text.labelled_identifiers import read_sentences

    sentences, valued = read_sentences(lines), read_sentences(values) if values else []
    texts, value_texts = ([each.text for each in some] for some in (sentences, valued))
    found = {
        name: _ours(plan, texts, value_texts)
        for name, plan in (
            ("ours, minimal, rules alone", Plan(MINIMAL, recogniser=False)),
            ("ours, minimal", Plan(MINIMAL)),
            ("ours, hipaa", Plan(kinds_of("hipaa"))),
            ("ours, all kinds", Plan(frozenset(KINDS))),
        )
    }
    versions = "Presidio was not given"
    if presidio is not None:
        command = [presidio, str(Path(__file__).resolve()), "--peer"]
        asked = json.dumps([texts, value_texts])
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{presidio} --peer failed:\n{done.stderr[-2000:]}")
        answer = json.loads(done.stdout.splitlines()[-1])
        found["Presidio"] = Finds([[(start, end, "") for start, end in of] for of in answer["spans"]], answer["speed"])
        versions = answer["versions"]
    rows = []
    for name, (spans, speed) in found.items():
        of_lines, of_values = spans[: len(texts)], spans[len(texts) :]
        twelve, every = (_recall(sentences, of_lines, kinds) for kinds in (MINIMAL, frozenset(KINDS)))
        rows.append((name, *twelve, *every, _precision(sentences, of_lines), _lost(valued, of_values), f"{speed:.2f}"))
    head = ("", "12 kinds: whole", "share", "all kinds: whole", "share", "finds on identifiers", "values lost")
    publish(
        [
            "# De-identification beside Presidio",
            "",
            f"{datetime.date.today()}, {versions}, Python {platform.python_version()}, {cpu_name()}, one process each.",
            *([note] if note else []),
            "",
            f"{len(sentences)} lines of {lines.name}. {_method()}",
            "",
            *table((*head, "MB per CPU s"), rows),
            "",
            "## By kind: found whole",
            "",
            *table(("kind", "labelled", *found), _by_kind(sentences, found)),
            "",
        ],
        output,
    )


def _ours(plan: Plan, texts: Sequence[str], values: Sequence[str]) -> Finds:
    from tasks.deidentify import deidentify
    from tasks.deidentify.explain import explain
    from tasks.deidentify.recogniser import shipped_recogniser

    spans = [[(one.start, one.end, one.kind) for one in explain(text, plan)[1]] for text in (*texts, *values)]
    recogniser = shipped_recogniser()

    def treat(text: str) -> None:
        recogniser.forget()  # type: ignore[union-attr]  # each line is a new one
        deidentify(text, plan)

    return Finds(spans, measured(treat, texts))


class Finds(NamedTuple):
    """What was found in each text (start, end and kind, "" for the peer), and the speed in MB per CPU second."""

    spans: Sequence[Sequence[tuple[int, int, str]]]
    speed: float


def _method() -> str:
    """The paragraphs of this file's docstring that say how it is measured, on one line."""
    assert __doc__ is not None
    return " ".join(" ".join(__doc__.split("\n\n")[3:]).split())


def _recall(
    sentences: Sequence[Sentence], spans: Sequence[Sequence[tuple[int, int, str]]], kinds: frozenset[str]
) -> tuple[str, str]:
    labelled = whole = 0
    for (text, marked), found in zip(sentences, spans, strict=True):
        covered = {at for start, end, _ in found for at in range(start, end)}
        for start, end, kind in marked:
            if kind in kinds:
                labelled += 1
                whole += all(at in covered or text[at] in NOT_COUNTED for at in range(start, end))
    return f"{whole} of {labelled}", f"{whole / labelled:.1%}"


def _by_kind(sentences: Sequence[Sentence], found: Mapping[str, Finds]) -> list[list[str]]:
    """Rows of all labelled kinds: how many are labelled, and how many each of the searches covers whole."""
    kinds = sorted({kind for _, spans in sentences for _, _, kind in spans})
    rows = []
    for kind in kinds:
        counts = [
            _recall(sentences, spans[: len(sentences)], frozenset((kind,)))[0].split(" of ")
            for spans, _ in found.values()
        ]
        rows.append([kind, counts[0][1], *(whole for whole, _ in counts)])
    return rows


def _lost(sentences: Sequence[Sentence], spans: Sequence[Sequence[tuple[int, int, str]]]) -> str:
    lost = number = 0
    for (_, marked), found in zip(sentences, spans, strict=True):
        changed = {at for start, end, kind in found if kind not in POLICY for at in range(start, end)}
        number += len(marked)
        lost += sum(not changed.isdisjoint(range(start, end)) for start, end, _ in marked)
    return f"{lost} of {number}"


def _precision(sentences: Sequence[Sentence], spans: Sequence[Sequence[tuple[int, int, str]]]) -> str:
    right = number = 0
    for (_, marked), found in zip(sentences, spans, strict=True):
        held = {at for start, end, _ in marked for at in range(start, end)}
        number += len(found)
        right += sum(not held.isdisjoint(range(start, end)) for start, end, _ in found)
    return f"{right} of {number}"


if __name__ == "__main__":
    main()
