"""What a service of the tests serves: a small list of diagnoses, a graph, and toy models. All data are synthetic."""

from __future__ import annotations

from pathlib import Path

from infra.artifacts import ArtifactStore
from models import heads
from models.weights.pretrained import load_encoder
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Kind
from tasks.finetune.saved_model import save_task_model
from tasks.retrieve.candidates import Entry
from tasks.retrieve.embedded import EmbeddedIndex
from tests.support.graphs.linked import entities_artifact
from tests.support.heads import toy_task as toy

LIST = [
    Entry("I10", "特发性(原发性)高血压", ("高血压", "高血压病"), ("list", "everyday")),
    Entry("I11.9", "高血压心脏病"),
    Entry("E11.9", "2型糖尿病", ("非胰岛素依赖型糖尿病",), ("list",)),
    Entry("E11.3", "2型糖尿病伴眼的并发症", ("2型糖尿病性视网膜病变",), ("list",)),
    Entry("I25.1", "动脉硬化性心脏病", ("冠心病", "冠状动脉粥样硬化性心脏病"), ("everyday", "list")),
    Entry("J18.9", "未特指的肺炎", ("肺炎", "肺部感染"), ("list", "graph")),
    Entry("J45.9", "未特指的哮喘", ("支气管哮喘",), ("list",)),
    Entry("K29.7", "未特指的胃炎", ("胃炎",), ("list",)),
    Entry("K35.8", "急性阑尾炎"),
    Entry("N18.9", "慢性肾脏病"),
    Entry("I63.9", "脑梗死", ("脑梗塞",), ("everyday",)),
    Entry("C34.9", "支气管或肺恶性肿瘤", ("肺癌",), ("everyday",)),
]

ENTITIES = [
    ("d1", "高血压", "疾病", ["高血压病"]),
    ("d2", "2型糖尿病", "疾病", ["Ⅱ型糖尿病"]),
    ("d3", "冠心病", "疾病", []),
    ("s1", "头痛", "症状", ["头疼"]),
    ("s2", "胸闷", "症状", []),
    ("m1", "二甲双胍", "药物", []),
    ("m2", "硝苯地平", "药物", []),
    ("e1", "血常规", "检查", []),
    ("x1", "皮疹", "", []),
]

TAGGED = TaskShape(
    task="cmeee", kind=Kind.NESTED_TAGGING, head="two_stream", max_length=64, labels=("dis", "sym"),
    streams=(("sym",), ("dis",)),
)  # fmt: skip
PAIRED = TaskShape(task="cmedqq", kind=Kind.PAIR, head="pair", max_length=64, labels=("0", "1"))
SINGLE = TaskShape(task="cmedtc", kind=Kind.SINGLE, head="single", max_length=64, labels=("内科", "外科", "儿科"))


def save_normaliser(folder: Path) -> Path:
    """An index of `LIST`, as normalise/index prints one."""
    EmbeddedIndex.build(LIST, folder)
    return folder


def save_graph(folder: Path) -> Path:
    """An artifact with the entities, as knowledge/fuse prints one."""
    rows = [{"entity_id": key, "name": name, "type": kind, "aliases": own} for key, name, kind, own in ENTITIES]
    return Path(entities_artifact(ArtifactStore(folder), rows).path)


def save_model(folder: Path, shape: TaskShape) -> Path:
    """A model of random weights."""
    encoder = toy.save_toy_encoder(folder / "encoder")
    model = heads.build(shape.head, load_encoder(encoder), seed=1, **shape.head_options)
    save_task_model(folder / "model", model, shape, encoder)
    return folder / "model"
