"""Shipped presets: the paper's values, what each flow reads of them, and mistakes in a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.recipes.data import MODEL_SECTIONS, Recipe
from flows.recipes.knowledge import KnowledgeRecipe
from flows.recipes.loading import preset_names
from flows.recipes.partial import load_recipe, load_sections
from flows.recipes.pretraining import Preset, load_preset, model_presets
from infra.errors import UserError
from infra.settings import REPOSITORY
from models import objectives
from tests.support.processes.forked import Interpreter

TABLE_7: dict[str, Any] = {
    "model.num_layers": 12,
    "model.hidden_size": 768,
    "model.intermediate_size": 3072,
    "model.num_heads": 12,
    "model.embedding_size": 768,
    "model.generator_divisor": 3,
    "model.mask_probability": 0.15,
    "training.warmup_steps": 10_000,
    "training.learning_rate": 2e-4,
    "training.adam_epsilon": 1e-6,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.999,
    "model.attention_dropout": 0.1,
    "model.hidden_dropout": 0.1,
    "training.weight_decay": 0.01,
    "training.batch_size": 256,
    "training.steps": 1_000_000,
    "model.rtd_weight": 50,
    "model.mts_weight": 20,
    "model.csp_weight": 1,
    "model.mts_negatives": 5,
    "model.csp_temperature": 0.07,
}


def test_ehealth_holds_table_7() -> None:
    preset = load_preset("ehealth")
    for key, value in TABLE_7.items():
        section, name = key.split(".")
        assert getattr(preset, section)[name] == value, key
    assert preset.model["hidden_size"] // preset.model["num_heads"] == 64
    assert (preset.segment.min_tokens, preset.segment.max_tokens, preset.encode.max_length) == (32, 510, 512)
    assert preset.vocabulary.min_frequency == 5


def test_cmed_bert_holds_table_3() -> None:
    preset = load_preset("cmed-bert")
    assert preset.model["max_predictions"] == 77
    assert preset.pairs.max_length == preset.model["max_positions"] == 384
    wanted = {"learning_rate": 1e-4, "warmup_steps": 10_000, "batch_size": 32, "steps": 120_000}
    assert {key: preset.training[key] for key in wanted} == wanted
    assert preset.model["pair_task"] == "nsp"


def test_electra_em_pap_holds_section_4() -> None:
    preset = load_preset("electra-em-pap")
    settings = objectives.check(preset.objective, {**preset.model, "vocab_size": 20_000})
    assert (settings.pap_share, settings.margin, settings.negatives_per_value) == (0.05, 4.0, 2)
    assert (settings.mask_probability, settings.generator_divisor, settings.entity_masking) == (0.15, 3, True)
    assert (preset.training["learning_rate"], preset.training["batch_size"]) == (2e-4, 16)
    assert preset.encode.max_length == preset.products.max_length == 128
    assert {"Drug", "Disease", "Efficacy"} <= set(preset.encode.mention_types)
    tiny = load_preset("electra-em-pap-tiny")
    for key in ("margin", "negatives_per_value", "mask_probability", "rtd_weight"):
        assert tiny.model[key] == preset.model[key]


def test_smedbert_holds_appendix_b() -> None:
    preset = load_preset("smedbert")
    settings = objectives.check(preset.objective, {**preset.model, "vocab_size": 20_000})
    assert (settings.hidden_size, settings.entity_size, settings.neighbours, settings.score_scale) == (768, 200, 10, 10)
    assert (settings.neighbour_weight, settings.mention_weight, settings.infusion_layer) == (2.0, 4.0, 10)
    assert (preset.training["learning_rate"], preset.training["batch_size"]) == (5e-5, 512)
    assert preset.training["steps"] == 5_937_695 // 512  # one epoch of section 4.1's segments
    assert preset.pairs.max_length == preset.model["max_positions"] == 512
    tiny = load_preset("smedbert-tiny")
    for key in ("neighbours", "negatives", "neighbour_weight", "mention_weight", "mask_probability", "pair_task"):
        assert tiny.model[key] == preset.model[key]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model.neighbours": 30}, "model.neighbours is 30, but neighbours.k is 10"),
        ({"embed.entity_dim": 100}, "model.entity_size is 200, but embed.entity_dim is 100"),
    ],
)
def test_knowledge_has_what_the_model_reads(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_preset("smedbert", overrides)
    assert load_preset("smedbert", {"model.neighbours": 30, "neighbours.k": 30}).neighbours.k == 30


@pytest.mark.parametrize("name", model_presets())
def test_every_model_preset_loads_and_its_lengths_fit(name: str) -> None:
    preset = load_preset(name)
    assert preset.segment.max_tokens + 2 <= preset.encode.max_length <= preset.model["max_positions"]
    if preset.model.get("pair_task", "none") != "none":
        room = preset.pairs.max_length - 3
        assert 3 * preset.segment.max_tokens <= room < preset.model["max_positions"]
    assert preset.description


def test_tiny_has_the_same_objective_and_is_small() -> None:
    tiny, full = load_preset("ehealth-tiny"), load_preset("ehealth")
    assert tiny.objective == full.objective
    for key in ("rtd_weight", "mts_weight", "csp_weight", "mts_negatives", "csp_temperature", "mask_probability"):
        assert tiny.model[key] == full.model[key]
    model = objectives.build(tiny.objective, {**tiny.model, "vocab_size": tiny.vocabulary.size})
    assert sum(parameter.numel() for parameter in model.parameters()) < 10_000_000


@pytest.mark.parametrize("name", sorted(set(KnowledgeRecipe.model_fields) - {"description"}))
def test_default_preset_gives_stages_the_parameters_of_ehealth(name: str) -> None:
    """Artifacts that flows made with the preset ehealth, before there was a neutral one, are still reused."""
    default, ehealth = (load_sections(KnowledgeRecipe, preset) for preset in ("default", "ehealth"))
    assert getattr(default, name) == getattr(ehealth, name)


def test_overrides_reach_every_section() -> None:
    preset = load_preset("ehealth-tiny", {"training.steps": 60, "segment.min_tokens": 8, "cluster.workers": 2})
    assert preset.train.training["steps"] == 60
    assert preset.segment.min_tokens == 8
    assert preset.cluster.workers == 2


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"segment.max_token": 5}, r"unknown key 'segment\.max_token' \(from --param or overrides\)"),
        ({"repeated_lines.min_document": 5}, r"'repeated_lines\.min_document' .*'repeated_lines\.min_documents'\?"),
        ({"model.hiden_size": 5}, r"unknown key 'model\.hiden_size' .*; did you mean 'model\.hidden_size'"),
        ({"training.step": 5}, r"unknown key 'training\.step' .*; did you mean 'training\.steps'"),
        ({"segment.max_tokens": 8}, r"max_tokens.*min_tokens"),
        ({"model.num_heads": 5}, r"model\.num_heads=5 must divide hidden_size"),
        ({"training.steps": "1_000"}, r"training\.steps is '1_000'; it must be an integer"),
        ({"model.mask_probability": "x"}, r"model\.mask_probability is 'x'; it must be a finite number"),
        ({"model.vocab_size": 5}, r"model\.vocab_size follows from the vocabulary\. Set vocabulary\.size"),
        ({"cluster.best_by": "nonsense"}, r"best_by='nonsense'.*mts_accuracy"),
        ({"objective": "brt"}, r"objective \(from --param or overrides\): unknown objective 'brt'; known: .*ehealth"),
        ({"training.tasks.pap.batch_size": 4}, r"training\.tasks\.pap: .* no such task; its tasks: ehealth"),
        ({"training.tasks.ehealth.batch": 4}, r"unknown key 'batch' in training\.tasks\.ehealth; did you mean batch_"),
        ({"training.tasks": 4}, r"training\.tasks is 4; it must be a section for each task"),
        ({"encode.max_length": 512}, r"encode\.max_length is 512, but model\.max_positions is 128\. Set .* segment"),
        (
            {"cluster.workers": [2, 99]},
            r"cluster\.workers is 99, more than .* batch .* raise training\.batch_size",
        ),
        ({"description.x": 1}, r"'description\.x' \(from --param or overrides\): 'description' is a value"),
    ],
)
def test_wrong_overrides_name_the_key(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_preset("ehealth-tiny", overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model.neighbours": 0}, r"model\.neighbours must be a positive integer, got 0"),
        ({"model.neighbours": 30}, r"model\.neighbours is 30, but neighbours\.k is 10, .* Set both to the same number"),
        ({"model.entity_size": 65}, r"model\.entity_size is 65, but embed\.entity_dim is 64"),
        ({"model.hit_ratio": 0}, r"model\.hit_ratio must be in \(0, 1\]"),
        ({"model.neighbour_score": "eq17"}, r"model\.neighbour_score must be one of eq18, eq16, eq19"),
        ({"model.infusion_layer": 10}, r"model\.infusion_layer=10 is not a layer of an encoder of 2"),
    ],
)
def test_impossible_knowledge_names_the_keys_of_the_preset(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_preset("smedbert-tiny", overrides)


def test_tasks_have_settings_of_their_own() -> None:
    overrides = {"training.tasks.pap.batch_size": 8.0, "training.tasks.pap.longest": 64, "model.pap_share": 0.2}
    preset = load_preset("electra-em-pap-tiny", overrides)
    assert preset.train.training["tasks"]["pap"] == {"batch_size": 8, "longest": 64}
    without = load_preset("electra-em-pap-tiny", {**overrides, "model.pap_share": 0.0})  # the ablation without PAP
    assert without.train.training["tasks"]["pap"] == {"batch_size": 8, "longest": 64}
    with pytest.raises(UserError, match=r"training\.tasks\.papp: .* no such task; its tasks: rtd, pap"):
        load_preset("electra-em-pap-tiny", {"training.tasks.papp.batch_size": 8})
    with pytest.raises(UserError, match=r"pap_share must be in \[0, 1\), got 1\.5"):
        load_preset("electra-em-pap-tiny", {"model.pap_share": 1.5})


def test_rows_that_a_stage_cuts_may_come_from_longer_segments() -> None:
    """Pairs are made as long as the model's positions, whatever the length of the segments."""
    overrides = {"encode.max_length": 512, "model.pair_task": "sop"}
    assert load_preset("bert-tiny", overrides).encode.max_length == 512
    with pytest.raises(UserError, match=r"encode\.max_length is 512"):
        load_preset("bert-tiny", overrides | {"model.pair_task": "none"})


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_next_sentences_have_two_answers(share: float) -> None:
    overrides = {"model.pair_task": "nsp", "pairs.random_share": share}
    with pytest.raises(UserError, match=rf"pairs\.random_share is {share:g}, so that all pairs have the same answer"):
        load_preset("bert-tiny", overrides)
    load_preset("bert-tiny", overrides | {"model.pair_task": "sop"})  # the flow takes neighbours only


def test_unknown_and_broken_presets_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no preset 'ehealt'.*ehealth-tiny"):
        load_preset("ehealt")
    broken = tmp_path / "mine.toml"
    broken.write_text("steps = = 3")
    with pytest.raises(UserError, match=r"mine\.toml is not valid TOML"):
        load_preset(str(broken))


def test_a_preset_without_a_model_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"default\.toml describes no model.* ehealth-tiny"):
        load_preset("default")
    mine = tmp_path / "mine.toml"
    mine.write_text('description = "mine"\nobjectve = "ehealth"\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"unknown key 'objectve' \(from .*mine\.toml\); did you mean 'objective'"):
        load_preset(str(mine))


def test_the_names_of_model_sections_are_those_of_the_preset() -> None:
    assert set(Preset.model_fields) == set(Recipe.model_fields) | MODEL_SECTIONS


@pytest.mark.parametrize("name", preset_names())
def test_a_recipe_is_the_part_of_a_preset_about_data(name: str) -> None:
    recipe = load_recipe(name, {"segment.min_tokens": 8})
    assert recipe.segment.min_tokens == 8
    if name in model_presets():
        preset = load_preset(name, {"segment.min_tokens": 8})
        assert recipe.model_dump() == {key: preset.model_dump()[key] for key in Recipe.model_fields}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("training.stps", r"unknown key 'training\.stps' .*; did you mean 'training\.steps'"),
        ("embed.epoch", r"unknown key 'embed\.epoch' .*; did you mean 'embed\.epochs'"),
        ("trainin.steps", r"unknown key 'trainin\.steps' .*; did you mean 'training\.steps'"),
    ],
)
@pytest.mark.parametrize("name", ["default", "ehealth-tiny"])
def test_a_recipe_checks_keys_of_sections_that_it_lacks(name: str, key: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe(name, {key: 5})


def test_keys_of_a_model_are_checked_where_the_preset_has_one() -> None:
    assert load_recipe("default", {"model.hiden_size": 5}) == load_recipe("default")  # of which model?
    with pytest.raises(UserError, match=r"unknown key 'model\.hiden_size'"):
        load_recipe("ehealth-tiny", {"model.hiden_size": 5})


HEAVY = ("torch", "ray", "transformers", "prefect")
COMMON = ("flows.recipes.pretraining", "flows.recipes.partial", "tasks.runner.stages")
"""Modules that most flows import; they are imported once, and then looked at as "nothing" else."""

FLOWS = sorted(path.stem for path in (REPOSITORY / "flows").glob("[!_]*.py"))
MISTAKES = [
    ({"training.stepz": 3}, "did you mean 'training.steps'"),
    ({"model.num_heads": 5}, "num_heads=5 must divide hidden_size"),
    ({"training.warmup_steps": -1}, "training.warmup_steps (-1) must be at least 0"),
    ({"embed.epochs": 0}, "embed.epochs is 0"),
]


def importing(*modules: str) -> str:
    """Code that imports modules and prints which of the heavy packages came with them."""
    return f"import sys, {', '.join(modules)}; print(*(name for name in {HEAVY} if name in sys.modules))"


def making(overrides: dict[str, Any]) -> str:
    """Code that prints why a preset is refused, and whether torch was needed for it."""
    return (
        "import sys\n"
        "from flows.recipes.pretraining import load_preset\n"
        "from infra.errors import UserError\n"
        "try:\n"
        f"    load_preset('ehealth-tiny', {overrides!r})\n"
        "except UserError as error:\n"
        "    print(error)\n"
        "print('torch' in sys.modules)\n"
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What processes print that import a flow, or load a preset with a mistake."""
    pieces = {flow: importing(f"flows.{flow}") for flow in FLOWS}
    pieces["train and export"] = importing("tasks.pretrain.train", "tasks.pretrain.export")
    pieces |= {message: making(overrides) for overrides, message in MISTAKES}
    pieces |= {"nothing": importing("os"), "torch": importing("torch")}
    with Interpreter(tmp_path_factory.mktemp("said"), *COMMON) as interpreter:
        return {name: interpreter.run(code).stdout for name, code in pieces.items()}


def test_heavy_packages_are_noticed(said: dict[str, str]) -> None:
    assert said["nothing"] == "\n" and said["torch"] == "torch\n"


@pytest.mark.parametrize("flow", FLOWS)
def test_importing_a_flow_imports_no_torch(flow: str, said: dict[str, str]) -> None:
    """Flows over text never need it, the others only after their settings are checked."""
    assert said[flow] == "\n"


def test_reusing_a_finished_model_imports_no_torch(said: dict[str, str]) -> None:
    assert said["train and export"] == "\n"


@pytest.mark.parametrize("message", [message for _, message in MISTAKES])
def test_mistakes_in_a_preset_are_explained_without_torch(message: str, said: dict[str, str]) -> None:
    assert message in said[message] and said[message].endswith("\nFalse\n")
