"""Models of the Hugging Face hub by their id: from the local cache, whole or not at all, and never from the network."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from flows.finetune import finetune
from flows.pretrain import pretrain
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.heads.encoders import open_plain_encoder
from tasks.finetune.inputs import ModelFolder
from tests.support.heads import toy_task as toy
from tests.support.heads.hub_cache import COMMIT, cached, half_downloaded

NAME = "hfl/toy-macbert"
SMALL: dict[str, Any] = {
    "finetune.epochs": [1],
    "finetune.batch_sizes": [8],
    "finetune.learning_rates": [5e-3],
    "finetune.resources": {"trials_at_once": 1},
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.save_toy_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no way to the network."""

    def refuse(*arguments: object, **options: object) -> str:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    return tmp_path / "hub"


def test_model_of_the_cache_is_the_one_of_its_folder(cache: Path, encoder: Path) -> None:
    snapshot = cached(cache, NAME, encoder)
    found, own = ModelFolder(NAME), ModelFolder(encoder)
    assert found.path == snapshot and found.fingerprint == own.fingerprint
    assert (found.name, found.origin) == (NAME, f"{NAME}@{COMMIT}")
    assert (own.name, own.origin) == (encoder.name, None)


def test_revision_is_a_branch_a_tag_or_a_commit(cache: Path, tmp_path: Path, encoder: Path) -> None:
    other = toy.save_toy_encoder(tmp_path / "other", seed=1)
    cached(cache, NAME, encoder)
    later = cached(cache, NAME, other, "f" * 40, "v2.0")
    assert ModelFolder(NAME).origin == f"{NAME}@{COMMIT}"
    assert ModelFolder(f"{NAME}@v2.0").path == ModelFolder(f"{NAME}@{'f' * 40}").path == later
    with pytest.raises(UserError, match=r"hf download hfl/toy-macbert --revision v3"):
        ModelFolder(f"{NAME}@v3")
    cached(cache, "bert-toy-chinese", encoder, reference=None)  # fetched by its commit alone
    assert ModelFolder("bert-toy-chinese").origin == f"bert-toy-chinese@{COMMIT}"


def test_folder_of_that_name_comes_first(
    cache: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(cache, NAME, encoder)
    own = shutil.copytree(encoder, tmp_path / NAME)
    monkeypatch.chdir(tmp_path)
    assert ModelFolder(NAME).path == own.resolve()


@pytest.mark.parametrize("name", ["hfl/chinese-unknown", "bert-base-chinese"])
def test_unknown_id_is_explained_before_any_work(
    name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    text = tmp_path / "text.txt"
    text.write_text("患者头痛三天。", encoding="utf-8")
    with pytest.raises(UserError, match="There is no folder") as caught:
        finetune.fn(tasks="cmedqq", model=name, data=str(tmp_path))
    for part in (repr(name), str(cache), f"hf download {name}", "HF_HUB_OFFLINE=0", "--param model=FOLDER"):
        assert part in str(caught.value)
    with pytest.raises(UserError, match=r"--param init_from=FOLDER"):
        pretrain.fn("bert-tiny", str(text), init_from=name)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/model", "a/b/c", "~/nowhere", "a--b", "nowhere/"])
def test_path_is_no_id(path: str, cache: Path) -> None:
    with pytest.raises(UserError, match=r"^There is no folder .*\. Give the folder of an encoder") as caught:
        ModelFolder(path)
    assert "cache" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "missing"), [("model.safetensors", r"model\.safetensors"), ("config.json", r"config\.json")]
)
def test_half_downloaded_snapshot_is_refused(file: str, missing: str, cache: Path, encoder: Path) -> None:
    half_downloaded(cached(cache, NAME, encoder), file)
    with pytest.raises(UserError, match=rf"has only a part of it, .* lacks {missing}\. Fetch the rest: .*hf download"):
        ModelFolder(NAME)


def test_snapshot_needs_a_tokeniser_and_every_piece_of_its_weights(cache: Path, encoder: Path) -> None:
    snapshot = cached(cache, NAME, encoder)
    weights = snapshot / "model.safetensors"
    weights.rename(snapshot / "model-00001-of-00002.safetensors")
    pieces = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps({"weight_map": pieces}), encoding="utf-8")
    for name in ("vocab.txt", "tokenizer.json"):
        (snapshot / name).unlink()
    with pytest.raises(UserError, match=r"lacks a tokeniser \(.*\), model-00002-of-00002\.safetensors\. Fetch"):
        ModelFolder(NAME)


class Code:
    """What must never run: unpickled, it writes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


def pickled(folder: Path, encoder: Path, content: Any) -> Path:
    shutil.copytree(encoder, folder)
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    return folder


def test_pickle_is_read_as_tensors_alone(cache: Path, encoder: Path, tmp_path: Path) -> None:
    state = load_file(encoder / "model.safetensors")
    cached(cache, NAME, pickled(tmp_path / "pickled", encoder, state))
    ours, theirs = (open_plain_encoder(ModelFolder(one).path) for one in (NAME, encoder))
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())

    trace = tmp_path / "trace"
    cached(cache, "evil/toy", pickled(tmp_path / "evil", encoder, {**state, "x": Code(trace)}))
    with pytest.raises(UserError, match="could be code"):
        open_plain_encoder(ModelFolder("evil/toy").path)
    assert not trace.exists()
    with (tmp_path / "evil" / "pytorch_model.bin").open("wb") as file:
        pickle.dump(Code(trace), file)
    with pytest.raises(UserError, match=r"pytorch_model\.bin is not a readable file of weights"):
        open_plain_encoder(tmp_path / "evil")
    assert not trace.exists()


def test_folder_of_another_architecture_is_refused(
    cache: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    other = shutil.copytree(encoder, tmp_path / "gpt2")
    (other / "config.json").write_text('{"model_type": "gpt2", "vocab_size": 10}', encoding="utf-8")
    cached(cache, "toy/gpt2", other)
    data = str(toy.save_cmedqq(tmp_path / "data", (8, 4, 4)))
    with pytest.raises(UserError, match=r"model_type is 'gpt2'; supported are bert, electra, ernie, roformer"):
        finetune.fn(tasks="cmedqq", model="toy/gpt2", data=data, quick=True, overrides=SMALL)


def test_run_records_the_revision(cache: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    cached(cache, NAME, encoder)
    data = str(toy.save_cmedqq(tmp_path / "data", (8, 4, 4)))
    given: dict[str, Any] = {"tasks": "cmedqq", "data": data, "seeds": [1], "overrides": SMALL}
    folder = finetune.fn(model=NAME, **given)
    (run,) = ArtifactStore(tmp_path / "home").list("finetune")
    assert run.manifest.inputs["model"].origin == f"{NAME}@{COMMIT}"
    assert run.manifest.inputs["data"].origin is None
    assert '"origin"' not in run.manifest.inputs["data"].model_dump_json()
    assert f"`{NAME}`" in Path(folder, "README.md").read_text(encoding="utf-8")
    assert finetune.fn(model=str(encoder), **given) == folder, "the same weights are the same work"


def test_hub_is_asked_only_where_the_user_allows_it(
    cache: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str]]] = []
    pickle_only = pickled(tmp_path / "pickled", encoder, load_file(encoder / "model.safetensors"))

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        if name == "none/toy":
            raise OSError("no such model\nwith a long explanation")
        source = encoder if name == NAME else pickle_only
        kept = shutil.copytree(source, tmp_path / "hub-itself" / str(len(asked)))
        if "pytorch_model.bin" not in allow_patterns:
            (kept / "pytorch_model.bin").unlink(missing_ok=True)
        snapshot = cache / f"models--{name.replace('/', '--')}" / "snapshots" / COMMIT
        return str(shutil.copytree(kept, snapshot, dirs_exist_ok=True))

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(UserError, match="hf download"):
        ModelFolder(NAME)
    assert asked == []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert ModelFolder(NAME).origin == ModelFolder(NAME).origin == f"{NAME}@{COMMIT}"
    ((name, patterns),) = asked  # once: the second time it was there
    assert name == NAME and not {"*.py", "pytorch_model.bin"} & set(patterns)
    assert ModelFolder("mc/toy").path.joinpath("pytorch_model.bin").is_file()
    assert [one for one, _ in asked[1:]] == ["mc/toy", "mc/toy"] and "pytorch_model.bin" in asked[2][1]
    with pytest.raises(UserError, match=r"^none/toy cannot be fetched from the Hugging Face hub: no such model\. Look"):
        ModelFolder("none/toy")
