"""Flow `evaluate`, deployment intrinsic: what encoders know of entities, without fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flows.recipes.evaluating import IntrinsicRecipe
from flows.recipes.partial import load_sections
from flows.shared.documents import collect_documents, cut_segments, last, text_inputs
from flows.shared.graphs import Graphs, fused, requested_graphs
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.evaluate.attention.synonym_sentences import synonym_sentences
from tasks.evaluate.trained import trained
from tasks.finetune.inputs import ModelFolder
from tasks.knowledge.thesaurus import thesaurus
from tasks.runner import StageRunner, flow, stage_runner


@dataclass(frozen=True)
class IntrinsicData:
    """Text and graph that encoders are asked about."""

    segments: Artifact
    graph: Artifact
    """The fused graph."""


Evaluation = Callable[[StageRunner, IntrinsicRecipe, IntrinsicData, Sequence[ModelFolder]], list[Artifact]]


def attention_of_entities(
    run: StageRunner, recipe: IntrinsicRecipe, data: IntrinsicData, models: Sequence[ModelFolder]
) -> list[Artifact]:
    """Compare the attention to entities, synonyms and random entities in the same sentences, for each model."""
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.evaluate.attention.stage import attention

    synonyms = run(thesaurus, recipe.thesaurus, kg_entities=data.graph)
    asked = {"kg_entities": data.graph, "synonyms": synonyms}
    sentences = run(synonym_sentences, recipe.synonym_sentences, segments=data.segments, **asked)
    found = []
    for model in models:
        surfaces = trained(model.path).entity_surfaces
        known = {} if surfaces is None else {"entity_surfaces": surfaces}
        read = {"sentences": sentences, "kg_entities": data.graph, **known}
        found.append(run(attention, recipe.attention, model=model, **read))
    return found


EVALUATIONS: tuple[Evaluation, ...] = (attention_of_entities,)
"""What the flow does with the same models, text and graph; each evaluation returns a report for each model."""


@flow(name="evaluate")
def evaluate(
    model: str | list[str] | None = None,
    corpus: str | list[str] | None = None,
    graphs: Graphs | None = None,
    preset: str = "default",
    benchmarks: str | None = None,
    dictionary: str | None = None,
    sentences: list[str] | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Compare the attention that entities, their synonyms and random entities attract, and draw heat maps of it.

    Args:
        model: folder of an encoder, or several to compare on the same sentences: those that a pretrain flow printed, or
            any BERT, ELECTRA or RoFormer.
        corpus: files or folders of text; the default is that of corpus/refresh.
        graphs: as in knowledge/fuse; their aliases are the synonyms.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        sentences: sentences of which heat maps are drawn, of up to 62 tokens; by default two of ours.
        overrides: `attention.<key>`, `synonym_sentences.<key>` and dotted preset keys to values.

    Returns:
        The folder of the first model's report; those of others are printed before it.
    """
    asked = {} if sentences is None else {"attention.sentences": sentences}
    recipe = load_sections(IntrinsicRecipe, preset, {**asked, **(overrides or {})})
    if not model:
        raise UserError("No model was given. Give the folder of an encoder, as in --param model=FOLDER.")
    models = [ModelFolder(one) for one in ([model] if isinstance(model, str) else model)]
    text = text_inputs(corpus, benchmarks, dictionary)
    requested = requested_graphs(graphs)
    # Torch is imported after all other checks, so that most mistakes are explained without it.
    from tasks.evaluate.attention.stage import check_attention

    for one in models:
        check_attention(one.path, recipe.attention)
    with stage_runner() as run:
        segments = cut_segments(run, recipe, last(collect_documents(run, recipe, text)), text)
        data = IntrinsicData(segments, fused(run, recipe, requested))
        reports = [report for evaluation in EVALUATIONS for report in evaluation(run, recipe, data, models)]
    for report in reports[1:]:
        print(report.path)
    return str(reports[0].path)
