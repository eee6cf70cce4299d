"""The catalogue of tasks agrees with the papers."""

from __future__ import annotations

import ast
import pickle
from collections import Counter
from pathlib import Path

import pytest

from infra.errors import UserError
from infra.settings import REPOSITORY
from tasks.downstream import catalogue
from tasks.downstream.catalogue import TASKS, chineseblue, own, suite, suites, task
from tasks.downstream.catalogue.labels import CMEIE_PREDICATES, CTC_LABELS
from tasks.downstream.records import Kind
from tasks.downstream.spec import TaskSpec
from tasks.metrics.scores import METRICS, RANKING_METRICS


def test_names_are_unique_and_unknown_ones_suggest_close_ones() -> None:
    assert max(Counter(spec.name for spec in TASKS).values()) == 1
    assert task("cmeee").title == "CMeEE"
    with pytest.raises(UserError, match=r"no task 'CMeEE'\. Did you mean cmeee"):
        task("CMeEE")
    with pytest.raises(UserError, match=r"no task 'kuake-qi'\. Did you mean kuake-qic"):
        task("kuake-qi")
    with pytest.raises(UserError, match=r"no task 'xx'\. Known tasks: cmeee, cmeie"):
        task("xx")
    with pytest.raises(UserError, match=r"no suite 'cblu'\. Did you mean cblue"):
        suite("cblu")
    assert set(suites()) == {"cblue", "medical-qa", "chineseblue", "embert", "smedbert", "pap", "cmedlms"}


def test_suites_contain_the_tasks_of_the_papers() -> None:
    assert [spec.title for spec in suite("cblue")] == [
        "CMeEE", "CMeIE", "CHIP-CDN", "CHIP-CTC", "CHIP-STS", "KUAKE-QIC", "KUAKE-QTR", "KUAKE-QQR",
    ]  # fmt: skip
    assert [spec.title for spec in suite("medical-qa")] == ["cMedQNLI", "webMedQA", "NLPEC"]
    assert {spec.title for spec in suite("chineseblue")} == {
        "cEHRNER", "cMedQANER", "cMedQQ", "cMedQA", "cMedQNLI", "cMedIR", "cMedIC", "cMedTC",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "batch_sizes", "learning_rates", "epochs", "length"),
    [
        ("cmeee", (32,), (6e-5, 1e-4), (2, 4, 8, 12), 128),
        ("cmeie", (12,), (6e-5,), (50, 100, 150, 200, 250), 300),
        ("chip-cdn", (256,), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16), 32),
        ("chip-ctc", (8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16), 160),
        ("chip-sts", (8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16), 96),
        ("kuake-qic", (8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16), 128),
        ("kuake-qtr", (8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16), 64),
        ("kuake-qqr", (8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16), 64),
        ("cmedqnli", (8, 16, 32), (3e-5, 6e-5, 1e-4), (1, 2, 4), 512),
        ("webmedqa", (8, 16), (2e-5, 3e-5, 6e-5), (1, 2, 4), 512),
        ("nlpec", (32,), (2e-5, 3e-5, 6e-5), (10, 20, 30, 40), 512),
    ],
)
def test_grids_match_table_9(
    name: str,
    batch_sizes: tuple[int, ...],
    learning_rates: tuple[float, ...],
    epochs: tuple[int, ...],
    length: int,
) -> None:
    spec = task(name)
    grid = spec.grid
    assert (grid.batch_sizes, grid.learning_rates, grid.epochs) == (batch_sizes, learning_rates, epochs)
    assert (spec.max_length, grid.source) == (length, "eHealth, Table 9")


def test_label_counts_match_the_benchmarks() -> None:
    counts = {spec.name: len(spec.labels) for spec in suite("cblue") if spec.labels}
    assert counts == {
        "cmeee": 9,
        "cmeie": 44,
        "chip-ctc": 44,
        "chip-sts": 2,
        "kuake-qic": 11,
        "kuake-qtr": 4,
        "kuake-qqr": 3,
    }
    assert len(set(CMEIE_PREDICATES)) == len(set(CTC_LABELS)) == 44
    assert all(set(spec.nested_types) < set(spec.labels or ()) for spec in TASKS if spec.kind == Kind.NESTED_TAGGING)


@pytest.mark.parametrize("spec", (*TASKS, *own.TASKS), ids=lambda spec: spec.name)
def test_entry_is_consistent(spec: TaskSpec) -> None:
    assert {spec.metric, *spec.more_metrics} <= METRICS.keys()
    assert pickle.loads(pickle.dumps(spec)) == spec  # entries are sent to Ray workers
    assert set(spec.files) == {"train", "dev", "test"}
    if spec.metric in RANKING_METRICS:
        assert spec.fields.group is not None
    if spec.kind in (Kind.PAIR, Kind.RANKING):
        assert len(spec.fields.texts) == 2


def test_docstring_example_is_a_valid_task() -> None:
    lines = (catalogue.__doc__ or "").split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("    TaskSpec("))
    last = next(number for number, line in enumerate(lines) if line == "    ),")
    source = "\n".join(lines[first : last + 1]).strip().rstrip(",")
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    spec = eval(source, {name: getattr(chineseblue, name) for name in names})
    assert (spec.name, spec.head, spec.files["dev"]) == ("my-intent", "single", ("a_dev.tsv",))
    assert last - first <= 11


def _described(spec: TaskSpec) -> str:
    names = f"{spec.files['train'][0]}, {spec.files['dev'][0]}, {spec.files['test'][0]}"
    fields = ", ".join(spec.columns) or ", ".join([*spec.fields.texts, _answer_field(spec)])
    grid = spec.grid
    return (
        f"| {spec.name} | {' '.join(spec.suites)} | {names} | {fields} | {spec.kind.value} | {spec.metric} "
        f"| {spec.max_length} | {len(grid.batch_sizes) * len(grid.learning_rates) * len(grid.epochs)} |"
    )


def _answer_field(spec: TaskSpec) -> str:
    return {
        "read_cmeee": "entities",
        "read_chineseblue": "mention_data",
        "read_ccks": "entities",
        "read_bio": "tags",
        "read_piped": "spans",
        "read_candidates": "ids",
    }.get(spec.reader.__name__, "spo_list" if spec.kind == Kind.TRIPLES else spec.fields.answer)


def test_documentation_lists_every_task() -> None:
    page = (REPOSITORY / "docs" / "downstream.md").read_text(encoding="utf-8")
    assert [line for line in page.split("\n") if line.startswith("| ") and line.split(" ")[1] in catalogue_names()] == [
        _described(spec) for spec in TASKS
    ]


def catalogue_names() -> set[str]:
    return {spec.name for spec in TASKS}


def test_sizes_match_the_papers(shared_data: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((shared_data.parent / "papers").glob("*.txt")))
    if not text:
        pytest.skip("the papers are not on this machine")
    plain = text.replace(",", "").replace("$", "").replace("\\!", "")
    for spec in (*suite("cblue"), *suite("medical-qa"), *suite("pap")):
        assert spec.sizes is not None
        assert all(str(size) in plain for size in spec.sizes)
