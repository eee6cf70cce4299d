"""Flow `evaluate`, deployment intrinsic: what models know of entities, without fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from flows.recipes.choices import PresetName, one_of
from flows.recipes.evaluating import IntrinsicRecipe
from flows.recipes.partial import load_sections
from flows.shared.documents import collect_documents, cut_segments, last, text_inputs
from flows.shared.graphs import Graphs, equal_names, requested_graphs, sources
from infra.artifacts import Artifact
from infra.errors import UserError
from models.knowledge_model.source import KNOWLEDGE_MODEL
from models.word_vectors import WordVectors
from tasks.evaluate.attention.synonym_sentences import synonym_sentences
from tasks.evaluate.similarity.params import SimilarityScoresParams, SimilarityTableParams
from tasks.evaluate.trained import trained
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.knowledge.fuse import fuse_graphs
from tasks.knowledge.thesaurus import thesaurus
from tasks.runner import StageRunner, flow, stage_runner

Vectors = Annotated[Mapping[str, str | list[str]], Field(examples=[{"SGNS": "vectors.txt"}])]
"""Word vectors by the name of their row: a file or folder, or two, of words and of characters."""


@dataclass(frozen=True)
class IntrinsicData:
    """Text and graph that models are asked about, and the models."""

    segments: Artifact
    graph: Artifact
    """The fused graph."""
    sources: Mapping[str, Any]
    """What it was fused from, as the inputs of `fuse_graphs`."""
    models: Sequence[ModelFolder]
    vectors: Mapping[str, dict[str, RawInput]] = field(default_factory=dict)
    """Word vectors as the inputs of `similarity_scores`."""


Evaluation = Callable[[StageRunner, IntrinsicRecipe, IntrinsicData], list[Artifact]]


def attention_of_entities(run: StageRunner, recipe: IntrinsicRecipe, data: IntrinsicData) -> list[Artifact]:
    """Compare the attention to entities, synonyms and random entities in the same sentences, for each model."""
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.evaluate.attention.stage import attention

    synonyms = run(thesaurus, recipe.thesaurus, kg_entities=data.graph)
    asked = {"kg_entities": data.graph, "synonyms": synonyms}
    sentences = run(synonym_sentences, recipe.synonym_sentences, segments=data.segments, **asked)
    found = []
    for model in data.models:
        surfaces = trained(model.path).entity_surfaces
        known = {} if surfaces is None else {"entity_surfaces": surfaces}
        read = {"sentences": sentences, "kg_entities": data.graph, **known}
        found.append(run(attention, recipe.attention, model=model, **read))
    return found


def similarity_of_names(run: StageRunner, recipe: IntrinsicRecipe, data: IntrinsicData) -> list[Artifact]:
    """Score all models on the sets of equal names, D1 to D3, beside spelling and fresh weights; one table."""
    from tasks.evaluate.similarity.scores import similarity_scores
    from tasks.evaluate.similarity.sets import similarity_sets
    from tasks.evaluate.similarity.table import similarity_table

    pairs = equal_names(run, recipe, data.graph, data.sources)
    asked = {"pairs": pairs, "kg_entities": data.graph, "segments": data.segments}
    sets = run(similarity_sets, recipe.similarity_sets, **asked)
    fresh = recipe.similarity_scores.model_copy(update={"random_weights": True})
    rows: list[tuple[str, SimilarityScoresParams, dict[str, Any]]]
    rows = [("Jaro-Winkler of the names", recipe.similarity_scores, {})]
    rows += [(f"{_row_name(data.models[0])}, fresh weights", fresh, {"model": data.models[0]})] if data.models else []
    rows += [(name, recipe.similarity_scores, given) for name, given in data.vectors.items()]
    for model in data.models:
        run_behind = trained(model.path).run
        known = {} if run_behind is None else {"checkpoint": run_behind}
        rows.append((_row_name(model), recipe.similarity_scores, {"model": model, **known}))
    names = {f"scores_{number:02d}": name for number, (name, _, _) in enumerate(rows)}
    scored = {
        f"scores_{number:02d}": run(similarity_scores, params, sets=sets, **given)
        for number, (_, params, given) in enumerate(rows)
    }
    return [run(similarity_table, SimilarityTableParams(names=names), sets=sets, **scored)]


EVALUATIONS: Mapping[str, Evaluation] = {"attention": attention_of_entities, "similarity": similarity_of_names}
"""What the flow does with the same models, text and graph; each evaluation returns its reports."""

SETTINGS = (IntrinsicRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="evaluate")
def evaluate(
    model: str | list[str] | None = None,
    vectors: Vectors | None = None,
    evaluations: list[Annotated[str, one_of(EVALUATIONS)]] | None = None,
    corpus: str | list[str] | None = None,
    graphs: Graphs | None = None,
    preset: PresetName = "default",
    benchmarks: str | None = None,
    dictionary: str | None = None,
    sentences: list[str] | None = None,
    knowledge: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Ask models about entities: the attention that these and their synonyms attract, and the similarity of names.

    `attention` compares the attention to entities, their synonyms and random entities, and draws heat maps (EMBERT).
    `similarity` asks for the equal name among 20 (SMedBERT's D1 to D3), all models in one table. Pairs that a model of
    ours has seen as equal are counted: train it with similarity_pairs.hold_out=true to have none.

    Args:
        model: folder of an encoder, or several to compare: those that a pretrain flow printed, or any BERT, ELECTRA or
            RoFormer.
        vectors: word vectors for `similarity`, such as `{"SGNS": "vectors.txt"}`, by the name of their row: a folder
            that embed printed, or a file in word2vec's text or binary format; a list of two is words, then characters
            for names that are no word.
        evaluations: `attention`, `similarity`, or both, which is the default; without a model, `similarity` alone.
        corpus: files or folders of text; the default is that of corpus/refresh.
        graphs: as in knowledge/fuse; their aliases are the synonyms. `similarity` needs their types too.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        sentences: sentences of which heat maps are drawn, of up to 62 tokens; by default two of ours.
        knowledge: folder of the knowledge of the models that read some; needed only for models that are not in the
            artifact store of their knowledge.
        overrides: `attention.<key>`, `synonym_sentences.<key>`, `similarity_pairs.<key>`, `similarity_sets.<key>`,
            `similarity_scores.<key>` and dotted preset keys to values.

    Returns:
        The folder of the first report; those of others are printed before it.
    """
    asked = {} if sentences is None else {"attention.sentences": sentences}
    recipe = load_sections(IntrinsicRecipe, preset, {**asked, **(overrides or {})})
    if not model and not vectors:
        raise UserError(
            "No model was given. Give the folder of an encoder, as in --param model=FOLDER, or word vectors, as in "
            '--param vectors=\'{"SGNS": "vectors.txt"}\'.'
        )
    folders = [model] if isinstance(model, str) else model or []
    models = [ModelFolder(one, knowledge=knowledge) for one in folders]
    chosen = _chosen(evaluations, bool(models))
    read_vectors = {name: _vectors(name, given) for name, given in (vectors or {}).items()}
    text = text_inputs(corpus, benchmarks, dictionary)
    requested = requested_graphs(graphs)
    _check(recipe, chosen, models, knowledge)
    with stage_runner() as run:
        segments = cut_segments(run, recipe, last(collect_documents(run, recipe, text)), text)
        read = sources(run, requested)
        graph = run(fuse_graphs, recipe.fuse, **read)
        data = IntrinsicData(segments, graph, read, models, read_vectors)
        reports = [report for name in chosen for report in EVALUATIONS[name](run, recipe, data)]
    for report in reports[1:]:
        print(report.path)
    return str(reports[0].path)


def _chosen(evaluations: list[str] | None, has_models: bool) -> list[str]:
    """Return the names of the evaluations, in their order. Raises `UserError` for an unknown or impossible one."""
    wanted = (list(EVALUATIONS) if has_models else ["similarity"]) if evaluations is None else evaluations
    if not wanted or (unknown := sorted(set(wanted) - set(EVALUATIONS))):
        given = ", ".join(unknown) if wanted else "none"
        raise UserError(f"evaluations={given}: there are {', '.join(EVALUATIONS)}. Give one of these, or several.")
    if "attention" in wanted and not has_models:
        raise UserError("The evaluation attention needs an encoder. Give --param model=FOLDER, or leave it out.")
    return [name for name in EVALUATIONS if name in wanted]


def _vectors(name: str, given: str | list[str]) -> dict[str, RawInput]:
    paths = [given] if isinstance(given, str) else given
    if not 1 <= len(paths) <= 2:
        raise UserError(f"vectors.{name} has {len(paths)} paths. Give one, or two: of words, then of characters.")
    read = {kind: RawInput([path]) for kind, path in zip(("words", "characters"), paths, strict=False)}
    for one, path in zip(read.values(), paths, strict=True):
        one.places()
        if "://" not in path:  # a remote file is checked when the stage has fetched it
            WordVectors.check(Path(path).expanduser())
    return read


def _check(
    recipe: IntrinsicRecipe, chosen: Sequence[str], models: Sequence[ModelFolder], knowledge: str | None
) -> None:
    """Raise `UserError` for a folder that an evaluation cannot read, or knowledge that no model reads."""
    # Torch is imported after all other checks, so that most mistakes are explained without it.
    from models.heads.encoders import reads_knowledge
    from tasks.evaluate.attention.stage import check_attention
    from tasks.evaluate.similarity.name_vectors import EncoderNames

    if knowledge is not None and not any(reads_knowledge(one.path) for one in models):
        raise UserError(
            f"knowledge={knowledge}: none of the models reads knowledge. Leave it out, or give the folder "
            "knowledge_model of an export."
        )
    for one in models:
        if "attention" in chosen:
            check_attention(one.path, recipe.attention)
        if "similarity" in chosen:
            EncoderNames.of_folder(one.path, knowledge=one.knowledge)


def _row_name(model: ModelFolder) -> str:
    """Return the objective of a model of ours and the beginning of its fingerprint, or the name of its folder."""
    run = trained(model.path).run
    if run is None:
        return model.name
    objective = run.manifest.params["objective"]
    if model.path.name == KNOWLEDGE_MODEL:
        return f"{objective} {model.path.parent.name[:8]}, with knowledge"
    return f"{objective} {model.path.name[:8]}"
