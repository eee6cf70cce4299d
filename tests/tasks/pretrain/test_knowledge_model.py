"""The second form of an export: what SMedBERT's artifact holds, and that it works on raw text with that alone."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from models import objectives
from models.encoder.layout import Layout
from models.heads.encoders import open_encoder
from tasks.downstream.features.base import sequence_of
from tasks.finetune.text import open_tokenizer
from tasks.knowledge.arrays import KnowledgeArraysParams, knowledge_arrays
from tasks.pretrain.encode import EncodeParams, encode
from tasks.pretrain.export import write_model
from tasks.pretrain.knowledge_model import write_knowledge_model
from tasks.segment.stage import SegmentParams, segment
from tasks.training.run_spec import RunSpec
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, count_words, vocabulary
from tests.support.graphs.given_knowledge import WIDTHS, given_knowledge
from tests.support.text.stages import do
from tests.support.text.synthetic_text import DISEASES, DRUGS, SYMPTOMS, synthetic_documents
from tests.support.text.tables import documents_artifact

NAMES = (*DISEASES, *SYMPTOMS, *DRUGS)
MODEL = {
    "hidden_size": 32,
    "num_layers": 3,
    "num_heads": 2,
    "intermediate_size": 64,
    "max_positions": 64,
    "infusion_layer": 2,
    "entity_size": WIDTHS[0],
    "neighbours": 3,
    "vocab_multiple": 64,
    "initializer_range": 0.2,
}


class Run:
    """What a run of SMedBERT leaves, without the training: linked examples, knowledge, and weights."""

    def __init__(self, root: Path) -> None:
        self.store = ArtifactStore(root)
        texts = [document["text"] for document in synthetic_documents()]
        documents = documents_artifact(self.store, texts)
        words = do(self.store, count_words, CountWordsParams(), documents=documents)
        self.vocabulary = do(self.store, vocabulary, VocabularyParams(size=1000, min_frequency=2), words=words)
        self.segments = do(self.store, segment, SegmentParams(max_tokens=60, min_tokens=8), documents=documents)
        self.knowledge, self.examples = self.linked("相关")
        self.model = {**MODEL, "vocab_size": self.vocabulary.rows()}
        torch.manual_seed(0)
        self.said = ""
        """What the last export had to say of its second form."""
        self.objective: Any = objectives.build("smedbert", self.model).eval()

    def linked(self, relation: str) -> tuple[Artifact, Artifact]:
        entities = [{"entity_id": name, "name": name, "type": "疾病"} for name in NAMES]
        triples = [(one, relation, other) for one, other in pairwise(NAMES)]
        graph = given_knowledge(self.store, entities, triples, {NAMES[0]: 5})
        given = {"segments": self.segments, "vocabulary": self.vocabulary, "entities": graph["graph"]}
        return do(self.store, knowledge_arrays, KnowledgeArraysParams(), **graph), do(
            self.store, encode, EncodeParams(), **given
        )

    def write(self, folder: Path, **change: Artifact) -> Path:
        spec = RunSpec.model_construct(objective="smedbert", model=self.model)
        state = {"model": self.objective.state_dict()}
        trained_on = {"examples": self.examples, "knowledge": self.knowledge} | change
        self.said = write_model(folder, spec, state, self.vocabulary, trained_on) or ""
        return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folder(trained: Run) -> Path:
    """Both forms in the place of an artifact."""
    return trained.write(Path(trained.store.absolute("export")) / "e1")


def test_the_plain_form_is_transformers_bert(trained: Run, folder: Path) -> None:
    plain = AutoModel.from_pretrained(folder)
    assert type(plain).__name__ == "BertModel"
    ids = torch.tensor([[2, 7, 8, 9, 10, 3]])
    with torch.no_grad():
        expected = trained.objective.encoder(ids[0], Layout.from_lengths([6]))
        torch.testing.assert_close(plain(ids).last_hidden_state[0], expected, rtol=1e-5, atol=1e-5)


def test_raw_text_gets_the_objective_s_knowledge(trained: Run, folder: Path) -> None:
    """The folder alone links the text and finds its store; the states are those of the objective's own parts."""
    import models.smedbert  # noqa: F401

    encoder: Any = open_encoder(folder / "knowledge_model")
    tokenizer = open_tokenizer(folder / "knowledge_model", encoder)
    text = f"患者有{DISEASES[1]}，用{DRUGS[0]}。"
    (tokens,) = tokenizer.words([text])
    sequence = sequence_of(tokenizer, tokens)
    assert sequence.mentions is not None
    assert [NAMES[row] for row in sequence.mentions[:, 2]] == [DISEASES[1], DRUGS[0]]
    network, ids, layout = (
        encoder.network.eval(),
        torch.from_numpy(sequence.input_ids),
        Layout.from_lengths([len(tokens) + 2]),
    )
    spans, near = network._looked_up(torch.from_numpy(sequence.mentions), network.knowledge, ids.device)
    objective = trained.objective
    with torch.no_grad():
        hidden = objective.encoder.run(objective.encoder.embed(ids, layout), layout, last=2)
        expected = objective.encoder.run(objective.infusion(hidden, spans, near), layout, first=2)
        found = network(ids, layout, None, torch.from_numpy(sequence.mentions))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        auto = AutoModel.from_pretrained(folder / "knowledge_model")
        theirs = auto(ids[None], mentions=[sequence.mentions]).last_hidden_state[0]
    torch.testing.assert_close(theirs, expected, rtol=1e-5, atol=1e-5)


def test_the_form_with_knowledge_says_what_it_needs(folder: Path, trained: Run) -> None:
    said = trained.said
    graph = trained.knowledge.manifest.inputs["graph"]
    assert f"knowledge_arrays/{trained.knowledge.fingerprint}" in said and f"{graph.stage}/{graph.fingerprint}" in said
    config = (folder / "knowledge_model" / "config.json").read_text(encoding="utf-8")
    assert str(folder.parents[1]) not in config, "an artifact has no path of its machine"


def test_elsewhere_the_model_needs_its_own_knowledge(trained: Run, folder: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(folder / "knowledge_model", tmp_path / "alone")
    with pytest.raises(UserError, match=r"reads the knowledge arrays knowledge_arrays/"):
        open_encoder(alone)
    assert open_encoder(alone, knowledge=trained.knowledge.path).graph is not None  # type: ignore[union-attr]
    other, _ = trained.linked("治疗")
    with pytest.raises(UserError, match=r"has knowledge of the graph given_graph/.* was trained on given_graph/"):
        open_encoder(alone, knowledge=other.path)


def test_a_graph_that_is_gone_is_named(trained: Run, tmp_path: Path) -> None:
    unlinked = do(trained.store, encode, EncodeParams(), segments=trained.segments, vocabulary=trained.vocabulary)
    with pytest.raises(UserError, match="no longer has the graph whose entities"):
        write_knowledge_model(tmp_path, trained.objective, unlinked, trained.knowledge)


def test_without_infusion_there_is_one_form(trained: Run, tmp_path: Path) -> None:
    model = {**trained.model, "infusion": False}
    spec = RunSpec.model_construct(objective="smedbert", model=model)
    state = {"model": objectives.build("smedbert", model).state_dict()}
    assert write_model(tmp_path, spec, state, trained.vocabulary, {}) is None
    assert (
        not (tmp_path / "knowledge_model").exists()
        and type(AutoModel.from_pretrained(tmp_path)).__name__ == "BertModel"
    )
