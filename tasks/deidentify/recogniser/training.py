"""Training of the recogniser: a linear-chain CRF over drawn lines, whose weights are then pruned and rounded.

    python -m tasks.deidentify.recogniser.training --data DATA --labelled LINES.jsonl --output model.npz

DATA is a folder with the public sources that benchmarks use: dialogues, questions, abstracts, CMeKG, THUOCL, ICD-10.
Their sentences without persons are what is to stay; nothing of them enters the model but weights and hashes of terms.
Equal inputs and seeds give equal weights on one machine. Lafferty, McCallum and Pereira (2001), Conditional random
fields; steps by AdaGrad (Duchi, Hazan and Singer 2011). Time grows with lines times epochs; memory holds all lines.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from infra.arrays.compiled import compiled
from tasks.deidentify.forms.names import SURNAMES
from tasks.deidentify.forms.places import words
from tasks.deidentify.recogniser.archive import write_arrays
from tasks.deidentify.recogniser.drawing import LABELLED_SHARE, Drawing, Line, Source
from tasks.deidentify.recogniser.features import (
    FEATURES,
    KEY_BITS,
    LEXICON_BITS,
    LONGEST_TERM,
    Knowledge,
    term_key,
    write_features,
)  # fmt: skip
from tasks.deidentify.recogniser.labels import KINDS_FOUND, LABELS, MAY_FOLLOW, mark_span
from tasks.deidentify.recogniser.tagging import MODEL
from tasks.deidentify.recogniser.tokens import shortened, tokens_of
from tasks.deidentify.search.find import find_identifiers

_TEXTS = {
    "chineseblue/cMedQA": ("text_a", "text_b"), "chineseblue/cMedQQ": ("text_a", "text_b"),
    "chineseblue/cMedIR": ("query",),
    "chineseblue/cMedTC": ("text",), "chineseblue/cEHRNER": ("text",), "chineseblue/cMedQANER": ("text",),
    "toyhom_dialogue/im_sample": ("title", "ask", "answer"), "huatuo_llama/llama_data": ("instruction", "output"),
    "zhongjing_eval/huatuo26m_qa6000": ("question", "answer"), "cmmlu_medical/mcq": ("question", "A", "B", "C", "D"),
    "csl_scientific/kg": ("text",), "icd10_zh/who_icd10_zh_en": ("name_zh",), "tcm_ancient_books/sections": ("text",),
    "products/cmekg_drug_attributes": ("value",),
}  # fmt: skip
"""Columns with texts, by file."""
_PER_FILE = 16_000
"""Most sentences of a file."""
# matches: "曰", "李时珍"
# not: "头痛"
_NAMES_IN_BOOKS = re.compile("[曰云氏]|仲景|时珍|思邈|丹溪|东垣|景岳|叔和|华佗|扁鹊|先生|著|撰|序")
# matches: "。", "\n"
# not: "，"
_SENTENCE_END = re.compile(r"(?<=[。！？!?；])|\n")
# matches: " ", "{"
# not: "头痛"
_UNFIT = re.compile(r"[\s{}]")
# matches: "头痛"
# not: "CT"
_HAN = re.compile("[\u4e00-\u9fff]+")
_EXAMS = words(
    "胃镜 肠镜 胸部CT 头颅MRI 腹部B超 心电图 血常规 尿常规 肝功能 肾功能 凝血功能 冠脉造影 心脏彩超 骨密度  "
    "支气管镜 病理 免疫组化 肿瘤标志物 甲状腺B超 钼靶 "
)
_OPERATIONS = words(
    "阑尾切除术 胆囊切除术 剖宫产术 冠脉支架植入术 髋关节置换术 白内障手术 甲状腺切除术 肺叶切除术  "
    "胃癌根治术 清创缝合术 椎间盘切除术 PICC置管 "
)
_LABS = words(
    "WBC12.3 Hb98g/L HER2(+) Ki-67约30% INR2.4 ALT88U/L 血钾3.1mmol/L CEA正常 TSH偏低 HbA1c7.8% AMH1.2  "
    "PSA正常 D-二聚体升高 HBsAg(+) "
)


HIDDEN_OF_256 = 128
"""Features of 256 that are hidden in a step."""
PENALTY = 1e-5
"""Weight of the squares of the weights in the loss."""


class Examples(NamedTuple):
    """Tokens of all lines end to end, with the first of each line."""

    symbols: np.ndarray
    hashes: np.ndarray
    starts: np.ndarray
    """First character of each token and the end of the last, int32; a line has one more of them than tokens."""
    words: np.ndarray
    word_hashes: np.ndarray
    word_starts: np.ndarray
    word_tags: np.ndarray
    labels: np.ndarray
    lines: np.ndarray
    """First token of each line and the end of the last, int64 (L + 1,)."""
    word_lines: np.ndarray
    """First word of each line and the end of the last, int64 (L + 1,)."""


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sources")
    add_labelled(parser)
    parser.add_argument("--lines", type=int, default=120_000, help="lines that are drawn")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--kept", type=int, default=150_000, help="most features that are kept")
    parser.add_argument(
        "--costs", type=float, nargs=len(KINDS_FOUND), default=[0.0] * len(KINDS_FOUND),
        help=f"what a span must be worth more than none: {', '.join(KINDS_FOUND)}",
    )  # fmt: skip
    parser.add_argument("--doubt", type=float, default=3.2, help="what a name must be worth that is a word too")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", type=Path, default=MODEL)
    options = parser.parse_args()
    labelled = read_all_labelled(options)
    source = read_source(options.data, labelled, options.seed)
    print(f"{len(source.sentences)} sentences, {len(labelled)} labelled lines", flush=True)
    drawing = Drawing(source, options.seed, options.labelled_share)
    knowledge = Knowledge(name_scores(drawing, source.sentences), lexicon_of(options.data))
    lines = [drawing.line() for _ in range(options.lines)]
    examples = read_examples(lines)
    print(f"{len(lines)} lines, {len(examples.symbols)} tokens", flush=True)
    rows, weights, transitions = train(examples, knowledge, options.epochs, options.seed)
    save(options.output, rows, weights, transitions, knowledge, options.kept, options.costs, options.doubt)
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.2f} MB", flush=True)


def add_labelled(parser: argparse.ArgumentParser) -> None:
    """Add the options that name files of labelled lines."""
    parser.add_argument("--labelled", type=Path, nargs="*", default=[], help="lines with identifiers in braces")
    parser.add_argument(
        "--labelled-even", type=Path, nargs="*", default=[], help="files of which the lines 0, 2, 4 … alone are used"
    )
    parser.add_argument(
        "--labelled-share", type=float, default=LABELLED_SHARE, help="share of the lines that are drawn from these"
    )


def read_all_labelled(options: argparse.Namespace) -> list[str]:
    """Return the labelled lines that those options name."""
    labelled = [line for file in options.labelled for line in read_labelled(file)]
    return labelled + [line for file in options.labelled_even for line in read_labelled(file)[::2]]


def read_labelled(file: Path) -> list[str]:
    """Return the labelled lines of a file; its first line describes it."""
    return [json.loads(line)["marked"] for line in file.read_text(encoding="utf-8").splitlines()[1:]]


def read_source(data: Path, labelled: Sequence[str], seed: int) -> Source:
    """Return the sentences without persons and the terms of the public sources."""
    rng = random.Random(seed)
    sentences: list[str] = []
    for file, texts in read_texts(data, rng):
        found = (one for text in texts for one in _sentences(text[:600], in_book=file.startswith("tcm")))
        sentences += _first_different(found, _PER_FILE)
    triples = pq.read_table(
        data / "kg_cmekg/triples.parquet", columns=["head", "head_type", "relation", "tail"]
    ).to_pandas()
    heads = triples.drop_duplicates("head")
    terms: dict[str, Sequence[str]] = {
        "dx": _short(heads[heads.head_type == "Disease"]["head"], 10),
        "sx": _short(heads[heads.head_type == "Symptom"]["head"], 8),
        "drug": _short(heads[heads.head_type == "Drug"]["head"], 9),
        "herb": _short(triples[triples.relation.str.contains("组成|成份|药味")]["tail"].drop_duplicates(), 4),
        "any": _short((term for held in _lexicons(data) for term in held), 6),
        "product": _short(pq.read_table(data / "products/diseasekb_product_titles.parquet")["title"].to_pylist(), 16),
        "exam": _EXAMS, "op": _OPERATIONS, "lab": _LABS,
    }  # fmt: skip
    return Source(sentences, {slot: held or ["头痛"] for slot, held in terms.items()}, labelled)


def read_texts(data: Path, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each public source with its texts, in random order."""
    for file, columns in _TEXTS.items():
        table = pq.read_table(data / f"{file}.parquet", columns=list(columns))
        texts = [text for name in columns for text in table[name].to_pylist() if text]
        rng.shuffle(texts)
        yield file, texts


def _short(column: Iterable[object], most: int) -> list[str]:
    return sorted(term for term in map(str, column) if 2 <= len(term) <= most and not _UNFIT.search(term))


def _sentences(text: str, in_book: bool) -> Iterator[str]:
    """Yield the sentences of a text that name nobody."""
    for sentence in _SENTENCE_END.split(text):
        plain = sentence.strip().replace("{", "").replace("}", "")
        if 4 <= len(plain) <= 90 and not (in_book and _NAMES_IN_BOOKS.search(plain)) and not find_identifiers(plain):
            yield plain


def _first_different(items: Iterable[str], most: int) -> list[str]:
    seen: dict[str, None] = {}
    for item in items:
        seen[item] = None
        if len(seen) >= most:
            break
    return list(seen)


def _lexicons(data: Path) -> Iterator[list[str]]:
    """Yield the terms of each source."""
    for file, column in (
        ("kg_cmekg/triples", "head"), ("lexicon/thuocl_medical", "term"), ("lexicon/diseasekb_dict", "term"),
        ("icd10_zh/who_icd10_zh_en", "name_zh"), ("kg_cmekg/triples", "tail"),
    ):  # fmt: skip
        yield [*map(str, pq.read_table(data / f"{file}.parquet", columns=[column])[column].unique().to_pylist())]


def lexicon_of(data: Path) -> np.ndarray:
    """Return the keys of short medical terms, bool (2 ** LEXICON_BITS,)."""
    terms = {term for held in _lexicons(data) for term in held}
    held = np.zeros(1 << LEXICON_BITS, dtype=np.bool_)
    short = [term for term in terms if 2 <= len(term) <= LONGEST_TERM and _HAN.fullmatch(term)]
    # Longer terms are rarely taken for names; of the short ones those with a surname matter.
    held[[term_key(term) for term in short if len(term) <= 4 or term[0] in SURNAMES]] = True
    return held


def name_scores(drawing: Drawing, sentences: Sequence[str]) -> np.ndarray:
    """Return how much likelier characters are in drawn names than in sentences, as `Knowledge.name_scores`."""
    of_text = Counter(character for sentence in sentences for character in sentence)
    total = sum(of_text.values())
    rows = [Counter[str](), Counter[str](), Counter[str]()]
    for _ in range(60_000):
        given = drawing.given()
        surname = drawing.surname()
        if len(surname) == 1:
            rows[0][surname] += 1
        if len(given) == 2:
            rows[1][given[0]] += 1
        rows[2][given[-1]] += 1
    scores = np.full((3, 0x10000), -128, dtype=np.int8)
    scores[1:, 0x3400:] = -50
    for row, counts in enumerate(rows):
        many = sum(counts.values())
        for character, count in counts.items():
            ratio = (count + 0.5) / many / ((of_text[character] + 20) / total)
            scores[row, ord(character)] = np.clip(round(10 * np.log(ratio)), -100, 100)
    return scores


def read_examples(lines: Sequence[Line]) -> Examples:
    """Return the tokens of lines with their labels."""
    texts = [shortened(line.text) for line in lines]
    held = [tokens_of(text) for text, _ in texts]
    labels = []
    for line, (_, places), tokens in zip(lines, texts, held, strict=True):
        of_line = np.zeros(len(tokens.symbols), dtype=np.int8)
        for start, end, kind in line.spans:
            first, last = np.searchsorted(places[tokens.starts], (start, end)).tolist()
            mark_span(of_line, first, last, kind)
        labels.append(of_line)
    joined = {name: np.concatenate([getattr(one, name) for one in held]) for name in held[0]._fields}
    return Examples(
        **joined, labels=np.concatenate(labels), lines=np.cumsum([0, *(len(one.symbols) for one in held)]),
        word_lines=np.cumsum([0, *(len(one.word_hashes) for one in held)]),
    )  # fmt: skip


def train(
    examples: Examples, knowledge: Knowledge, epochs: int, seed: int, least: int = 4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row of each key, int32, the weights (K, L) and those of transitions (L, L)."""
    counts = np.zeros(1 << KEY_BITS, dtype=np.int32)
    _count(*examples, *knowledge, counts)
    keys = np.flatnonzero(counts >= least)
    rows = np.zeros(1 << KEY_BITS, dtype=np.int32)
    rows[keys] = np.arange(1, len(keys) + 1)
    rows[0] = 0
    many = len(LABELS)
    weights, steps = np.zeros((len(keys) + 1, many), np.float32), np.full((len(keys) + 1, many), 1e-3, np.float32)
    transitions, transition_steps = np.zeros((many, many)), np.full((many, many), 1e-3)
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        order = rng.permutation(len(examples.lines) - 1)
        loss = _epoch(
            *examples,
            *knowledge,
            rows,
            weights,
            steps,
            transitions,
            transition_steps,
            MAY_FOLLOW,
            order,
            0.12 / (1 + 0.5 * epoch),
            seed * 100 + epoch,
        )
        print(f"epoch {epoch}: loss of a line {loss / len(order):.4f}, {len(keys)} features", flush=True)
    transitions[~MAY_FOLLOW] = -np.inf
    return rows, weights, transitions


def save(
    file: Path,
    rows: np.ndarray,
    weights: np.ndarray,
    transitions: np.ndarray,
    knowledge: Knowledge,
    kept: int,
    costs: Sequence[float],
    doubt: float,
) -> None:
    """Write the weights of the features that matter most, rounded to integers of 8 bits."""
    keys = np.flatnonzero(rows)
    size = np.abs(weights[rows[keys]]).max(axis=1)
    keys = np.sort(keys[np.argsort(-size, kind="stable")[:kept]])
    chosen = weights[rows[keys]]
    scale = 120 / np.quantile(np.abs(chosen).max(axis=1), 0.9995)
    whole = np.where(np.isfinite(transitions), np.round(transitions * scale), -(10**7)).astype(np.int64)
    scores = knowledge.name_scores
    characters = np.flatnonzero((scores[0] != -128) | (scores[1:] != -50).any(axis=0))
    characters = characters[characters >= 0x3400]
    arrays = {
        "gaps": np.diff(keys, prepend=0).astype(np.uint16),
        # by label: neighbours are then alike, which makes the file a tenth smaller
        "weights": np.ascontiguousarray(np.clip(np.round(chosen * scale), -127, 127).astype(np.int8).T),
        "transitions": whole,
        "costs": np.round(np.array(costs) * scale).astype(np.int64),
        "doubt": np.array(round(doubt * scale)),
        "characters": characters.astype(np.int32),
        "scores": np.ascontiguousarray(scores[:, characters]),
        "terms": np.diff(np.flatnonzero(knowledge.lexicon), prepend=0).astype(np.uint16),
    }
    write_arrays(file, arrays)


@compiled
def _keys_of(
    line: int, symbols: np.ndarray, hashes: np.ndarray, starts: np.ndarray, words: np.ndarray, word_hashes: np.ndarray,
    word_starts: np.ndarray, word_tags: np.ndarray, lines: np.ndarray, word_lines: np.ndarray, name_scores: np.ndarray,
    lexicon: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return the keys of the features of the tokens of a line."""
    first, end = lines[line], lines[line + 1]
    word, last_word = word_lines[line], word_lines[line + 1]
    keys = np.zeros((end - first, FEATURES), dtype=np.uint32)
    write_features(
        symbols[first:end], hashes[first:end], starts[first + line : end + line + 1], words[first:end],
        word_hashes[word:last_word], word_starts[word + line : last_word + line + 1], word_tags[word:last_word],
        name_scores, lexicon, keys,
    )  # fmt: skip
    return keys


@compiled
def _count(
    symbols: np.ndarray, hashes: np.ndarray, starts: np.ndarray, words: np.ndarray, word_hashes: np.ndarray,
    word_starts: np.ndarray, word_tags: np.ndarray, labels: np.ndarray, lines: np.ndarray, word_lines: np.ndarray,
    name_scores: np.ndarray, lexicon: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    for line in range(len(lines) - 1):
        keys = _keys_of(
            line,
            symbols,
            hashes,
            starts,
            words,
            word_hashes,
            word_starts,
            word_tags,
            lines,
            word_lines,
            name_scores,
            lexicon,
        )
        for at in range(keys.shape[0]):
            for feature in range(keys.shape[1]):
                counts[keys[at, feature]] += 1


@compiled
def _epoch(
    symbols: np.ndarray, hashes: np.ndarray, starts: np.ndarray, words: np.ndarray, word_hashes: np.ndarray,
    word_starts: np.ndarray, word_tags: np.ndarray, labels: np.ndarray, lines: np.ndarray, word_lines: np.ndarray,
    name_scores: np.ndarray, lexicon: np.ndarray, rows: np.ndarray, weights: np.ndarray, steps: np.ndarray,
    transitions: np.ndarray, transition_steps: np.ndarray, allowed: np.ndarray, order: np.ndarray, rate: float,
    seed: int,
) -> float:  # fmt: skip
    """Take one step for every line, in order, and return the sum of the losses."""
    many = weights.shape[1]
    loss = 0.0
    for line in order:
        keys = _keys_of(
            line,
            symbols,
            hashes,
            starts,
            words,
            word_hashes,
            word_starts,
            word_tags,
            lines,
            word_lines,
            name_scores,
            lexicon,
        )
        count = keys.shape[0]
        # A share of the features is hidden, so that no name hangs on a single one that was seen in training.
        state = (
            np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
            + np.uint64(line) * np.uint64(0xD1342543DE82EF95)
            + np.uint64(1)
        )
        for at in range(count):
            for feature in range(keys.shape[1]):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                if state & np.uint64(255) < HIDDEN_OF_256:
                    keys[at, feature] = 0
        gold = labels[lines[line] : lines[line + 1]]
        scores = np.zeros((count, many))
        for at in range(count):
            for feature in range(keys.shape[1]):
                row = rows[keys[at, feature]]
                if row:
                    for label in range(many):
                        scores[at, label] += weights[row, label]
        factors = np.zeros((many, many))
        for one in range(many):
            for two in range(many):
                factors[one, two] = np.exp(transitions[one, two]) if allowed[one, two] else 0.0
        # forward and backward sums, scaled to 1 at each token
        emission = np.zeros((count, many))
        forward, backward, scale = np.zeros((count, many)), np.zeros((count, many)), np.zeros(count)
        for at in range(count):
            top = scores[at].max()
            loss += top
            total = 0.0
            for label in range(many):
                emission[at, label] = np.exp(scores[at, label] - top)
                before = factors[0, label] if at == 0 else 0.0
                if at > 0:
                    for other in range(many):
                        before += forward[at - 1, other] * factors[other, label]
                forward[at, label] = before * emission[at, label]
                total += forward[at, label]
            scale[at] = total
            loss += np.log(total)
            for label in range(many):
                forward[at, label] /= total
        for label in range(many):
            backward[count - 1, label] = 1.0
        for at in range(count - 2, -1, -1):
            for label in range(many):
                total = 0.0
                for other in range(many):
                    total += factors[label, other] * emission[at + 1, other] * backward[at + 1, other]
                backward[at, label] = total / scale[at + 1]
        change = np.zeros((many, many))
        for at in range(count):
            loss -= scores[at, gold[at]]
            before = 0 if at == 0 else gold[at - 1]
            loss -= transitions[before, gold[at]]
            change[before, gold[at]] -= 1.0
            for one in range(many):
                mass = (1.0 if one == 0 else 0.0) if at == 0 else forward[at - 1, one]
                if mass > 1e-9:
                    for two in range(many):
                        change[one, two] += mass * factors[one, two] * emission[at, two] * backward[at, two] / scale[at]
            wrong = np.zeros(many)
            greatest = 0.0
            for label in range(many):
                wrong[label] = forward[at, label] * backward[at, label] - (1.0 if gold[at] == label else 0.0)
                greatest = max(greatest, abs(wrong[label]))
            if greatest < 1e-3:
                continue
            for feature in range(keys.shape[1]):
                row = rows[keys[at, feature]]
                if row:
                    for label in range(many):
                        slope = np.float32(wrong[label] + PENALTY * weights[row, label])
                        steps[row, label] += slope * slope
                        weights[row, label] -= np.float32(rate) * slope / np.sqrt(steps[row, label])
        for one in range(many):
            for two in range(many):
                if allowed[one, two] and change[one, two] != 0.0:
                    transition_steps[one, two] += change[one, two] ** 2
                    transitions[one, two] -= rate * change[one, two] / np.sqrt(transition_steps[one, two])
    return loss


if __name__ == "__main__":
    main()
