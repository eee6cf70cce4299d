"""The wheel, outside the checkout: one top-level name, the command, and the work that needs no extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from infra.extras import EXTRAS
from infra.settings import REPOSITORY
from tests.support.processes.checkout_copy import copy_of_checkout

pytestmark = pytest.mark.slow

BLOCKER = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
TEXTS = [
    f"患者女，{age}岁，因反复上腹痛{age}月入院。予奥美拉唑口服，症状缓解，复查胃镜见胃窦炎。" for age in (41, 52, 63)
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is unpacked, as an installation does."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(copy_of_checkout(folder / "code"))], check=True)
    (wheel,) = folder.glob("yiwen-*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def yiwen(
    site: Path, work: Path, *arguments: str, without_extras: bool = False, script: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command, or a script, where no checkout is, with or without the packages of the extras."""
    blocker = work / "blocker"
    blocker.mkdir(exist_ok=True)
    names = sorted(EXTRAS) if without_extras else []
    (blocker / "sitecustomize.py").write_text(BLOCKER.format(names=names), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in ("YIWEN_HOME", "PYTHONPATH")}
    environment["PYTHONPATH"] = f"{blocker}:{site}"
    command = [sys.executable, "-P", *(["-c"] if script else ["-m", "yiwen"]), *arguments]
    return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=240)


def test_wheel_claims_one_name_and_has_every_file(site: Path) -> None:
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {"yiwen"}
    for folder in ("flows", "tasks", "models", "kg", "infra"):
        tracked = subprocess.run(
            ["git", "ls-files", folder], cwd=REPOSITORY, check=True, capture_output=True, text=True
        )
        assert [name for name in tracked.stdout.split() if not (site / "yiwen" / name).is_file()] == []
    folders = "(flows|tasks|models|kg|infra)"
    unmapped = re.compile(rf"^\s*(from|import) {folders}\b|[\"']{folders}\.[\w.]+:\w+[\"']", re.MULTILINE)
    assert [path for path in site.rglob("*.py") if unmapped.search(path.read_text(encoding="utf-8"))] == []
    (entry_points,) = site.glob("*.dist-info/entry_points.txt")
    assert "yiwen = yiwen.flows.__main__:main" in entry_points.read_text(encoding="utf-8")


def test_text_and_terms_need_no_extra(site: Path, work: Path) -> None:
    listed = yiwen(site, work, "list", without_extras=True)
    content = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text(encoding="utf-8"))
    assert listed.returncode == 0 and listed.stdout.count("\n  ") == len(content["deployments"])

    corpus = ("run", "corpus/refresh", "--param", "corpus=texts", "--param", "segment.min_tokens=8")
    refreshed = yiwen(site, work, *corpus, without_extras=True)
    assert refreshed.returncode == 0, refreshed.stderr
    assert "segment: 3 segments" in refreshed.stderr + refreshed.stdout
    assert list((work / "artifacts" / "segment").glob("*/manifest.json"))

    (work / "terms.csv").write_text("code,name\nI10.x00,高血压\nK29.700,胃炎\n", encoding="utf-8")
    (work / "given.csv").write_text("diagnosis\n高血压病\n胃炎\n", encoding="utf-8")
    index = ("run", "normalise/index", "--param", "terms=terms.csv", "--param", "synonyms=false")
    assert yiwen(site, work, *index, without_extras=True).returncode == 0
    found = yiwen(site, work, "normalise", "--input", "given.csv", "--output", "coded.csv", without_extras=True)
    assert found.returncode == 0, found.stderr
    coded = (work / "coded.csv").read_text(encoding="utf-8")
    assert "I10.x00" in coded and "K29.700" in coded

    training = yiwen(site, work, "run", "pretrain/bert-tiny", "--param", "corpus=texts", without_extras=True)
    assert training.returncode == 2
    assert "error: This needs the package torch" in training.stderr and "'yiwen[train]'" in training.stderr
    assert "Traceback" not in training.stderr


NOTEBOOK = """
import sys, yiwen
print("imported", [name for name in ("torch", "polars", "numpy") if name in sys.modules], yiwen.__version__)
print(yiwen.configure(progress=False))
print(yiwen.corpus.refresh(corpus="texts", overrides={"segment.min_tokens": 8}))
print(yiwen.deidentify("王伟，电话13812345678").text)
try:
    yiwen.Predictor
except yiwen.UserError as error:
    print(error)
"""


def test_import_gives_the_names_of_the_api(site: Path, work: Path) -> None:
    done = yiwen(site, work, NOTEBOOK, without_extras=True, script=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imported [] 0.")
    assert f"artifacts: {work / 'artifacts'} (YIWEN_HOME is not set)" in done.stdout
    assert "3 segments of 3 documents" in done.stdout and "Page: artifacts/report_corpus/" in done.stdout
    assert "〔手机号〕" in done.stdout and "'yiwen[train]'" in done.stdout.splitlines()[-1]
    assert (work / "artifacts" / "segment").is_dir()


def test_training_runs_in_a_child_process(site: Path, work: Path) -> None:
    small = [
        "training.steps=2",
        "training.warmup_steps=1",
        "training.batch_size=2",
        "segment.min_tokens=8",
        "encode.held_out_share=0.3",
    ]
    small += ["cluster.workers=0", "vocabulary.min_frequency=1", "corpus=texts"]
    given = [part for one in small for part in ("--param", one)]
    done = yiwen(site, work, "run", "pretrain/bert-tiny", *given)
    assert done.returncode == 0, done.stderr
    (model,) = (work / "artifacts" / "export").glob("*/config.json")
    assert model.is_file()


def test_every_package_of_an_extra_is_known() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        name: packages
        for name, packages in project["optional-dependencies"].items()
        if name not in ("all", "dev", "docs")
    }
    assert set(EXTRAS.values()) <= set(extras)
    module_of = {
        "OpenCC": "opencc",
        "mlflow-skinny": "mlflow",
        "prometheus-client": "prometheus_client",
        "pylopdf-fonts-zh-cn": "pylopdf_fonts_zh_cn",
        "scikit-learn": "sklearn",
    }
    unimported = {"autophrase", "alembic"}  # by us
    bringing: dict[str, set[str]] = {}
    for extra, packages in extras.items():
        for package in packages:
            bringing.setdefault(re.split(r"[<>\[=;]", package)[0], set()).add(extra)
    for name, own in bringing.items():
        if name not in unimported:
            assert EXTRAS[module_of.get(name, name)] in own
    assert {name for name in extras if f"{name}" not in project["optional-dependencies"]["all"][0]} == set()
