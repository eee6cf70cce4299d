"""Stage `export`: a trained checkpoint becomes a folder that transformers loads without remote code.

The folder has `config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json`, `vocab.txt`, `curves.png`
and a model card (`README.md`) with the run's own figures. Generator and heads are not exported (eHealth, section 3.3).
A model with knowledge has a second form in the subfolder `knowledge_model` (knowledge_model.py).
Time and memory grow only with the model. `export_checkpoint` exports a checkpoint of a run that is not finished.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.extras import explained
from infra.stage import Output, code_version, stage
from models import objectives
from models.knowledge_model.source import KNOWLEDGE_MODEL
from models.training.config import CHECKPOINT_FILE
from tasks.pretrain.knowledge_model import KNOWLEDGE, write_knowledge_model
from tasks.pretrain.model_card import TrainingRecord, write_model_card
from tasks.pretrain.params import ExportParams
from tasks.training.checkpoints import Checkpoints, step_folder
from tasks.training.run_spec import RunSpec
from tasks.training.sources import EXAMPLES

CARD = "README.md"
TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")


@stage(name="export", version=5, params=ExportParams)
def export(inputs: Mapping[str, Artifact], params: ExportParams, out: Output) -> None:
    """Export `inputs["checkpoint"]` with the tokeniser of `inputs["vocabulary"]`.

    All other inputs, `examples` and whatever else it was trained on, are described in the card.
    """
    from models.training.checkpoint import load_state  # imports torch, which a finished export need not wait for

    checkpoint = inputs["checkpoint"]
    with tempfile.TemporaryDirectory(prefix="yiwen-export-") as temporary:
        folder = Path(temporary) / "model"
        spec = RunSpec.model_validate_json(checkpoint.read_file("run.json"))
        record, place = _wanted(checkpoint, spec, params.milestone)
        (Path(temporary) / CHECKPOINT_FILE).write_bytes(checkpoint.read_file(f"{place}{CHECKPOINT_FILE}"))
        trained_on = {name: inputs[name] for name in (EXAMPLES, KNOWLEDGE) if name in inputs}
        knowledge = write_model(folder, spec, load_state(Path(temporary)), inputs["vocabulary"], trained_on)
        (folder / "curves.png").write_bytes(checkpoint.read_file("curves.png"))
        sources = [given for name, given in inputs.items() if name not in ("checkpoint", "vocabulary")]
        given = (params.name or f"yiwen-{spec.objective}", params.license, spec, record, sources, out.store)
        (folder / CARD).write_text(write_model_card(*given), encoding="utf-8")
        if knowledge is not None:
            card = write_model_card(*given, knowledge=knowledge)
            (folder / KNOWLEDGE_MODEL / CARD).write_text(card, encoding="utf-8")
        out.add_folder(folder)


def _wanted(checkpoint: Artifact, spec: RunSpec, milestone: float | None) -> tuple[TrainingRecord, str]:
    """Return the record of the last checkpoint or of a milestone's, and its folder in the artifact with a slash.

    Raises:
        UserError: the run kept no checkpoint of this milestone.
    """
    if milestone is None:
        return TrainingRecord.of(checkpoint), ""
    found = Checkpoints(str(checkpoint.path), spec.name).milestones([milestone]).get(milestone)
    if found is None or milestone not in spec.config.milestones:
        kept = ", ".join(f"{one:g}" for one in spec.config.milestones) or "none"
        raise UserError(
            f"The run kept no checkpoint at {milestone:g} of its length. Milestones of the run: {kept}; "
            "training.milestones sets them."
        )
    return TrainingRecord(found.step, checkpoint.manifest.code_version, found.figures), f"{step_folder(found.step)}/"


def write_model(
    folder: Path,
    spec: RunSpec,
    state: Mapping[str, Any],
    vocabulary: Artifact,
    trained_on: Mapping[str, Artifact],
    form: str | None = None,
) -> str | None:
    """Write the encoder of a training state and the tokeniser's files into a folder, which is created.

    If the state has a model with knowledge, it is written beside, from the examples and the knowledge in `trained_on`,
    and the beginning of its card is returned. `form` is one of the objective's `exports`, such as the encoder with its
    heads; by default the encoder alone.

    Raises:
        UserError: the objective has no such form.
    """
    from models.export import save_pretrained

    objective = objectives.build(spec.objective, spec.model)
    if form is not None and (form not in objective.exports or form == KNOWLEDGE_MODEL):
        known = [one for one in objective.exports if one != KNOWLEDGE_MODEL]
        raise UserError(f"The objective {spec.objective} has no form {form!r}; there are {', '.join(known)}.")
    objective.load_state_dict(state["model"])
    save_pretrained(objective, folder, form)
    forms, knowledge = [folder], None
    if form is None and KNOWLEDGE_MODEL in objective.exports:
        forms.append(folder / KNOWLEDGE_MODEL)
        knowledge = write_knowledge_model(forms[1], objective, trained_on[EXAMPLES], trained_on[KNOWLEDGE])
    for each in forms:
        for file in TOKENIZER_FILES:
            (each / file).write_bytes(vocabulary.read_file(file))
    return knowledge


def export_checkpoint(
    run: str, output: Path, step: int | None = None, form: str | None = None, onnx: bool = False
) -> int:
    """Export a checkpoint of a run, by default the newest, and return its step.

    Args:
        run: folder or URI of a `train` artifact or of a run under way; it contains `run.json`.
        output: folder to write; it must be empty or not exist.
        form: one of the objective's `exports`, such as `pre_training`; by default the encoder alone.
        onnx: write the model as ONNX too (models/weights/onnx_graph.py).

    Raises:
        UserError: there is no such run, checkpoint or form, it is damaged, or `output` is not empty.
    """
    if "://" not in run and not (Path(run) / "run.json").is_file():
        found = f"The folder {run} has no run.json" if Path(run).is_dir() else f"There is no folder {run}"
        raise UserError(f"{found}. Give that of a pre-training run, as in --run YIWEN_HOME/train/FINGERPRINT.")
    spec = RunSpec.read(f"{run.rstrip('/')}/run.json")
    refuse_content(output)
    checkpoints = Checkpoints(run, spec.name)
    record = checkpoints.at(step)
    store = ArtifactStore(spec.store)
    sources = [store.get(one.stage, one.fingerprint) for one in spec.sources.values()]
    examples = store.get(spec.sources[EXAMPLES].stage, spec.sources[EXAMPLES].fingerprint)
    given = examples.manifest.inputs.get("vocabulary") if examples is not None else None
    vocabulary = store.get(given.stage, given.fingerprint) if given is not None else None
    resources = {name: store.get(one.stage, one.fingerprint) for name, one in spec.resources.items()}
    known = [one for one in sources if one is not None]
    trained_on = {name: one for name, one in {EXAMPLES: examples, **resources}.items() if one is not None}
    if len(known) < len(sources) or vocabulary is None or len(trained_on) <= len(resources):
        raise UserError(f"{spec.store} no longer has the data or the vocabulary of this run. Run its flow again.")
    output.mkdir(parents=True, exist_ok=True)
    knowledge = write_model(output, spec, checkpoints.load(record), vocabulary, trained_on, form)
    training = TrainingRecord(record.step, code_version(), record.figures)
    of_run = (f"{spec.objective}, step {record.step:,}", None, spec, training, known, store, form)
    (output / CARD).write_text(write_model_card(*of_run), encoding="utf-8")
    if knowledge is not None:
        (output / KNOWLEDGE_MODEL / CARD).write_text(write_model_card(*of_run, knowledge), encoding="utf-8")
    if onnx:
        write_onnx(output, output)
    return record.step


def export_onnx(model: Path, output: Path) -> Path:
    """Write the model of a folder as ONNX, with its tokeniser and its card beside, and return the graph's path.

    Args:
        model: an exported encoder, or the model of a fine-tuning run, if transformers has a class for it.
        output: folder to write; it must be empty or not exist.

    Raises:
        UserError: it is no such folder, `output` is not empty, or the graph's outputs are not those of the model.
    """
    refuse_content(output)
    if not (model / "config.json").is_file():
        raise UserError(f"{model} has no config.json. Give the folder of a model, as in --model FOLDER.")
    path = write_onnx(model, output)
    for name in ("config.json", CARD, *TOKENIZER_FILES):
        if (model / name).is_file():
            shutil.copyfile(model / name, output / name)
    return path


def write_onnx(model: Path, output: Path) -> Path:
    """Write a model as ONNX. Raises `UserError` also if the extra `onnx` is not installed."""
    from models.weights import onnx_graph  # imports torch

    try:
        return onnx_graph.write_onnx(model, output)
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        raise missing from error


def refuse_content(output: Path) -> None:
    """Raise `UserError` if a folder to write is there and not empty."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output} exists and is not empty. Choose another folder.")
