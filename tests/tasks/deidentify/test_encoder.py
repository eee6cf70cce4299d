"""The encoder that reads again: as transformers computes it, what it adds, what it leaves, and its training."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits
from transformers import RoFormerConfig, RoFormerModel

from infra.errors import UserError
from tasks.deidentify import deidentify
from tasks.deidentify.explain import explain
from tasks.deidentify.plan import Plan, make_plan
from tasks.deidentify.recogniser import encoder as encoders
from tasks.deidentify.recogniser import encoder_mean, tagging
from tasks.deidentify.recogniser.archive import write_arrays
from tasks.deidentify.recogniser.distilling import begun
from tasks.deidentify.recogniser.drawing import Drawing, Line
from tasks.deidentify.recogniser.encoder import FIRST, OTHER, SPACE, WEIGHTS, Encoder, Reading, rows_of, unrounded
from tasks.deidentify.recogniser.encoder_layer import erf
from tasks.deidentify.recogniser.encoder_mean import mean_of
from tasks.deidentify.recogniser.encoder_training import (
    Tagger,
    arrays_of,
    characters_of,
    example_of,
    resumed,
    set_dropout,
    started,
    train,
)
from tasks.deidentify.recogniser.labels import LABELS, follows
from tasks.deidentify.recogniser.tagging import MODEL, Model
from tasks.deidentify.stage import DeidentifyParams
from tests.support.text.drawn_lines import SOURCE
from tests.support.text.labelled_identifiers import LABELLED, read_sentences

needs_model = pytest.mark.skipif(not MODEL.exists(), reason="the weights are not there")
needs_weights = pytest.mark.skipif(not WEIGHTS.exists(), reason="the weights are not there")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "患", "者", "王", "头", "痛", "a", "，", "。", "##b"]


pytestmark = pytest.mark.usefixtures("one_thread")


def saved(folder: Path) -> Path:
    """Return the folder of a small pre-trained model with random weights."""
    torch.manual_seed(3)
    config = RoFormerConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2,
    )  # fmt: skip
    RoFormerModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


def arrays_with(
    tagger: Tagger, characters: np.ndarray, cost: float = 0.0, least_lead: int = -(10**9)
) -> dict[str, np.ndarray]:
    return {**arrays_of(tagger, characters, 4), "cost": np.array(cost), "least_lead": np.array(least_lead)}


def test_scores_are_those_of_transformers(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    tagger, heads = started(saved(tmp_path), WORDS, characters, layers=2)
    assert heads == 4
    arrays = arrays_with(tagger, characters)
    with torch.no_grad():  # the weights that both have are the rounded ones
        layers = tagger.encoder.encoder.layer
        for number, layer in enumerate(layers):
            for name, module in {
                "query": layer.attention.self.query, "key": layer.attention.self.key,
                "value": layer.attention.self.value, "output": layer.attention.output.dense,
                "up": layer.intermediate.dense, "down": layer.output.dense,
            }.items():  # fmt: skip
                module.weight.copy_(torch.from_numpy(unrounded(arrays, f"layers.{number}.{name}")))
        tagger.head.weight.copy_(torch.from_numpy(unrounded(arrays, "head")))
        tagger.encoder.embeddings.word_embeddings.weight.copy_(torch.from_numpy(unrounded(arrays, "embeddings")))
        tagger.encoder.embeddings.token_type_embeddings.weight.zero_()
    text = "患者王某，头痛。aA 𠀀\n患者"
    rows = torch.from_numpy(rows_of(text, characters))[None]
    with torch.no_grad():
        tagger.eval()
        expected = torch.log_softmax(tagger(rows, torch.ones_like(rows)), -1)[0].numpy()
    assert len(layers) == 2
    np.testing.assert_allclose(Encoder(arrays).scores(text), expected, atol=2e-4)


def test_scores_of_a_rectified_encoder_are_those_of_transformers(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    teacher, _ = started(saved(tmp_path), WORDS, characters, layers=1)
    torch.manual_seed(5)
    small = begun(teacher, layers=2, width=16, inner=24, heads=2)
    with torch.no_grad():
        for each in (one for one in small.parameters() if one.requires_grad):  # positions are fixed
            each.add_(0.3 * torch.randn(each.shape))
        small.encoder.embeddings.token_type_embeddings.weight.zero_()
    arrays = {**arrays_of(small, characters, 2), "cost": np.array(0.0), "least_lead": np.array(0)}
    arrays = {name: held for name, held in arrays.items() if not name.endswith("/scale")}
    arrays |= {name: held.numpy() for name, held in unrounded_matrices(small).items()}
    text = "患者王某，头痛。aA 患者头痛王"
    rows = torch.from_numpy(rows_of(text, characters))[None]
    with torch.no_grad():
        expected = torch.log_softmax(small(rows, torch.ones_like(rows)), -1)[0].numpy()
    rectified, smooth = (Encoder({**arrays, "rectified": np.array(one)}).scores(text) for one in (1, 0))
    np.testing.assert_allclose(rectified, expected, atol=1e-4)
    assert np.abs(smooth - expected).max() > 1e-2


def unrounded_matrices(tagger: Tagger) -> dict[str, torch.Tensor]:
    """Return the matrices of a tagger by their names in a file of weights."""
    result = {"embeddings": tagger.encoder.embeddings.word_embeddings.weight, "head": tagger.head.weight}
    for number, layer in enumerate(tagger.encoder.encoder.layer):
        modules = {
            "query": layer.attention.self.query, "key": layer.attention.self.key, "value": layer.attention.self.value,
            "output": layer.attention.output.dense, "up": layer.intermediate.dense, "down": layer.output.dense,
        }  # fmt: skip
        result |= {f"layers.{number}.{name}": module.weight for name, module in modules.items()}
    return {name: held.detach() for name, held in result.items()}


def test_error_function_is_that_of_the_standard_library() -> None:
    values = np.linspace(-6, 6, 1001, dtype=np.float32)
    expected = [math.erf(value) for value in values.tolist()]
    np.testing.assert_allclose(erf(values), expected, atol=5e-7)


def test_rows_tell_blanks_and_unknown_characters_apart() -> None:
    characters = characters_of(WORDS, [Line("逄B", ())] * 20 + [Line("亓", ())] * 19)
    assert [*map(chr, characters.tolist())] == sorted("患者王头痛a，。逄B")
    rows = rows_of("王 亓\n逄", characters).tolist()
    assert rows[1:4] == [SPACE, OTHER, SPACE]
    assert [chr(characters[row - FIRST]) for row in (rows[0], rows[4])] == ["王", "逄"]


def test_capitals_begin_as_their_small_letters(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [Line("A", ())] * 20)
    tagger, _ = started(saved(tmp_path), WORDS, characters, layers=1)
    held = tagger.encoder.embeddings.word_embeddings.weight.detach()
    small, capital, other = (held[rows_of(one, characters)[0]] for one in "aA王")
    assert (small - capital).abs().max() < 0.1 < (small - other).abs().max()


def test_weights_that_are_trained_further_begin_as_they_were(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    first, _ = started(saved(tmp_path), WORDS, characters, layers=2)
    with torch.no_grad():
        for each in first.parameters():  # norms and biases too, which begin as ones and zeros
            each.add_(0.1 * torch.randn(each.shape))
    write_arrays(tmp_path / "encoder.npz", arrays_with(first, characters))
    again, held, heads = resumed(tmp_path / "encoder.npz")
    assert (held.tolist(), heads) == (characters.tolist(), 4)
    before, after = (Encoder(arrays_with(each, characters)) for each in (first, again))
    np.testing.assert_allclose(after.scores("患者王某，头痛。"), before.scores("患者王某，头痛。"), atol=1e-4)
    rows = torch.from_numpy(rows_of("患者王某，头痛。", characters))[None]
    with torch.no_grad():  # what is trained is what the file says, the embeddings of the segment included
        scores = torch.log_softmax(again(rows, torch.ones_like(rows)), -1)[0].numpy()
    np.testing.assert_allclose(scores, before.scores("患者王某，头痛。"), atol=2e-4)


def test_a_rectified_encoder_stays_one(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    torch.manual_seed(5)
    small = begun(started(saved(tmp_path), WORDS, characters, layers=1)[0], layers=1, width=16, inner=24, heads=4)
    with torch.no_grad():
        for each in (one for one in small.parameters() if one.requires_grad):  # else ReLU and GELU are much alike
            each.add_(0.3 * torch.randn(each.shape))
    assert bool(arrays_with(small, characters)["rectified"])
    write_arrays(tmp_path / "small.npz", arrays_with(small, characters))
    again, _, _ = resumed(tmp_path / "small.npz")
    texts = "患者王某，头痛。", "王"
    one, two = (Encoder(arrays_with(each, characters)) for each in (small, again))
    mean = Encoder({**mean_of([arrays_with(small, characters)] * 2), "cost": np.array(0.0), "least_lead": np.array(0)})
    for text in texts:
        np.testing.assert_allclose(two.scores(text), one.scores(text), atol=1e-3)
        np.testing.assert_array_equal(mean.scores(text), one.scores(text))
    rows = torch.from_numpy(rows_of(texts[0], characters))[None]
    with torch.no_grad():
        scores = torch.log_softmax(again(rows, torch.ones_like(rows)), -1)[0].numpy()
    np.testing.assert_allclose(scores, one.scores(texts[0]), atol=1e-3)


def test_dropout_is_that_of_the_option_in_training_alone(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    tagger, _ = started(saved(tmp_path), WORDS, characters, layers=2)
    rows, mask = torch.arange(2, 8)[None], torch.ones(1, 6, dtype=torch.int64)
    for rate in (0.0, 0.5):
        set_dropout(tagger, rate)
        with torch.no_grad():
            tagger.train()
            assert torch.equal(tagger(rows, mask), tagger(rows, mask)) == (rate == 0.0)
            tagger.eval()
            assert torch.equal(tagger(rows, mask), tagger(rows, mask))


def test_the_mean_of_encoders_lies_between_them(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    taggers = [started(saved(tmp_path), WORDS, characters, layers=2)[0] for _ in range(2)]
    with torch.no_grad():
        for tagger, by in zip(taggers, (0.1, -0.1), strict=True):
            for each in tagger.parameters():
                each.add_(by)
    one, two = (arrays_with(each, characters, cost=1.0) for each in taggers)
    mean = mean_of([one, two])
    assert mean.keys() == one.keys() - {"cost", "least_lead"}
    for name in ("embeddings", "layers.1.up", "layers.0.norm", "layers.1.down.bias", "head"):
        expected = (unrounded(one, name) + unrounded(two, name)) / 2
        np.testing.assert_allclose(unrounded(mean, name), expected, atol=0.01)
    same = mean_of([one, one])
    assert all(np.array_equal(same[name], one[name]) for name in same if "/" not in name)
    with pytest.raises(ValueError, match="equal characters"):
        mean_of([one, {**two, "characters": characters[1:]}])
    with pytest.raises(ValueError, match="equal characters"):
        mean_of([one, arrays_with(started(saved(tmp_path), WORDS, characters, layers=1)[0], characters)])


def test_the_command_writes_the_mean_with_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    characters = characters_of(WORDS, [])
    write_arrays(
        tmp_path / "one.npz", arrays_with(started(saved(tmp_path), WORDS, characters, layers=1)[0], characters)
    )
    files = [str(tmp_path / "one.npz")] * 2
    given = ["--cost", "1.5", "--least-lead", "7", "--output", str(tmp_path / "mean.npz")]
    monkeypatch.setattr("sys.argv", ["encoder_mean", *files, *given])
    encoder_mean.main()
    with np.load(tmp_path / "one.npz") as one, np.load(tmp_path / "mean.npz") as mean:
        assert (float(mean["cost"]), int(mean["least_lead"])) == (1.5, 7)
        assert np.array_equal(one["layers.0.up"], mean["layers.0.up"])
        assert Encoder(dict(mean)).least_lead == 7


def test_labels_form_spans_and_cost_takes_them_away(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    tagger, _ = started(saved(tmp_path), WORDS, characters, layers=2)
    with torch.no_grad():
        tagger.head.weight.normal_(std=0.5)
    text = "患者王，头痛。患者头痛王者a" * 4
    labels = Encoder(arrays_with(tagger, characters)).read(text).labels.tolist()
    assert any(labels) and labels[-1] in [at for at, label in enumerate(LABELS) if label[0] in "OES"]
    assert all(follows(before, label) for before, label in zip([0, *labels], labels, strict=False))
    assert not Encoder(arrays_with(tagger, characters, cost=500)).read(text).labels.any()
    assert Encoder(arrays_with(tagger, characters)).read("").labels.tolist() == []


def test_it_reads_with_one_thread_and_leaves_the_others_alone(tmp_path: Path) -> None:
    class Counting(Encoder):
        def scores(self, text: str) -> np.ndarray:
            self.seen = threads()
            return super().scores(text)

    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    characters = characters_of(WORDS, [])
    encoder = Counting(arrays_with(started(saved(tmp_path), WORDS, characters, layers=1)[0], characters))
    with threadpool_limits(2, user_api="blas"):
        encoder.read("患者王")
        assert set(threads()) == {2}
    assert set(encoder.seen) == {1}


def test_placeholders_are_one_character_and_labels_those_of_the_spans() -> None:
    characters = np.array(sorted(map(ord, "患者王小明诉〔")), dtype=np.int32)
    text = "患者〔姓名〕，王小明诉王"
    example = example_of(Line(text, ((7, 10, "name"), (11, 12, "name"))), characters)
    assert [LABELS[label] for label in example.labels] == [*"OOOO", "B-name", "I-name", "E-name", "O", "S-name"]
    assert len(example.rows) == len(example.labels) and example.rows[2] == FIRST + characters.tolist().index(ord("〔"))


def test_training_learns_and_equal_seeds_give_equal_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawing = Drawing(SOURCE, 1)
    lines = [drawing.line() for _ in range(200)]
    characters = characters_of(WORDS, lines)
    options = argparse.Namespace(seed=1, rate=3e-3, characters=60, hidden=0.1, epochs=3, bf16=False, device="cpu")
    results = []
    for _ in range(2):
        torch.manual_seed(1)
        tagger, _ = started(saved(tmp_path), WORDS, characters, layers=1)
        train(tagger, [example_of(line, characters) for line in lines], options)
        results.append(arrays_with(tagger, characters))
    assert results[0].keys() == results[1].keys()
    assert all(np.array_equal(results[0][name], results[1][name]) for name in results[0])
    losses = [float(line.split("character ")[1].split(",")[0]) for line in capsys.readouterr().out.splitlines()]
    assert losses[-1] < 0.6 * np.log(len(LABELS))  # what equal chances cost
    write_arrays(tmp_path / "one.npz", results[0])
    write_arrays(tmp_path / "two.npz", results[1])
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz") as held:
        one, other = (Encoder(arrays).read(lines[0].text) for arrays in (dict(held), results[0]))
        assert np.array_equal(one.labels, other.labels) and np.array_equal(one.likely, other.likely)


class _Recording(Tagger):
    """Remembers the rows that it was trained on."""

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        self.seen = [*getattr(self, "seen", []), rows.numpy()]
        return super().forward(rows, mask)


def test_names_are_hidden_more_often_than_other_words_and_blanks_never(tmp_path: Path) -> None:
    line = Line("患者 王小明 头痛", ((3, 6, "name"),))
    characters = characters_of(WORDS, [line] * 20)
    tagger = _Recording(started(saved(tmp_path), WORDS, characters, layers=1)[0].encoder, 32)
    options = argparse.Namespace(seed=1, rate=1e-3, characters=400, hidden=1.0, epochs=1, bf16=False, device="cpu")
    train(tagger, [example_of(line, characters)] * 800, options)
    seen, whole = np.concatenate(tagger.seen), rows_of(line.text, characters)
    is_name, is_blank = np.isin(np.arange(9), (3, 4, 5)), whole == SPACE
    assert len(seen) == 800 and (seen[:, is_blank] == SPACE).all()
    assert (seen[:, is_name] == OTHER).mean() == pytest.approx(0.6, abs=0.05)
    assert (seen[:, ~is_name & ~is_blank] == OTHER).mean() == pytest.approx(0.15, abs=0.05)
    drawn = seen[:, is_name][(seen[:, is_name] != OTHER)]
    assert len(np.unique(drawn)) == len(characters)


def test_of_a_long_line_the_beginning_is_learnt() -> None:
    characters = characters_of(WORDS, [])
    example = example_of(Line("头痛，" * 40 + "王患者" * 40, ((120, 123, "name"), (126, 129, "name"))), characters)
    assert len(example.rows) == len(example.labels) == 128
    assert [LABELS[label] for label in example.labels[119:]] == [
        "O",
        "B-name",
        "I-name",
        "E-name",
        *"OOO",
        "B-name",
        "I-name",
    ]


class _Marking(Encoder):
    """Takes fixed words for names, doubts others, and remembers what it read."""

    def __init__(self, words: tuple[str, ...], least_lead: int, doubted: str = "", likely: float = 1.0) -> None:
        self.words, self.least_lead, self.doubted, self.likely = words, least_lead, doubted, likely
        self.texts: list[str] = []

    def read(self, text: str) -> Reading:
        self.texts.append(text)
        labels = np.zeros(len(text), dtype=np.int8)
        for word in self.words:
            first = text.find(word)
            if first >= 0:
                labels[first : first + len(word)] = LABELS.index("I-name")
                labels[first] = LABELS.index("B-name")
                labels[first + len(word) - 1] = LABELS.index("E-name")
        likely = np.full(len(text), self.likely, dtype=np.float32)
        if self.doubted in text:
            first = text.index(self.doubted)
            likely[first : first + len(self.doubted)] = 0.09
        return Reading(labels, likely)


@needs_model
def test_the_encoder_adds_what_lies_on_nothing_found() -> None:
    text = "家属罗小燕拒绝检查，石榴到窗口取药。"
    assert [text[one.start : one.end] for one in Model(MODEL)(text)] == ["罗小燕"]
    reading = _Marking(("石榴", "小燕"), -(10**9))
    found = Model(MODEL, reading)(text)
    assert [(text[one.start : one.end], one.rule) for one in found] == [("罗小燕", "recogniser"), ("石榴", "encoder")]
    assert reading.texts == [text]


@needs_model
def test_a_name_that_the_encoder_refutes_stays() -> None:
    text = "家属罗小燕拒绝检查，住余姚市梨洲街道。"
    assert [text[one.start : one.end] for one in Model(MODEL)(text)] == ["罗小燕", "余姚市梨洲街道"]
    for doubted, kept in (
        ("罗小燕", ["余姚市梨洲街道"]),
        ("罗小", ["罗小燕", "余姚市梨洲街道"]),
        (text, ["余姚市梨洲街道"]),
    ):
        found = Model(MODEL, _Marking((), 10**9, doubted))(text)  # it reads for the name's sake, nothing is doubtful
        assert [text[one.start : one.end] for one in found] == kept


@needs_model
@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("耳鸣半年，幸福，左归丸早晚各9g。", "幸福", "encoder"),  # a word of a list
        ("白班沈小燕说180ml已倒未记。", "沈小燕", "recogniser"),  # a dose behind it
    ],
)
def test_a_name_that_it_is_sure_of_counts_although_such_words_mostly_stay(text: str, name: str, rule: str) -> None:
    for likely, found in ((0.91, [(name, rule)]), (0.89, [])):
        again = Model(MODEL, _Marking((name,), -(10**9), likely=likely))(text)
        assert [(text[one.start : one.end], one.rule) for one in again] == found


@needs_model
@pytest.mark.parametrize(("likely", "found"), [(0.61, ["7"]), (0.59, [])])
def test_a_bare_bed_that_it_is_sure_of_counts(likely: float, found: list[str]) -> None:
    text = "交：7低热，8～10出院。"

    class _Numbering(_Marking):
        def read(self, text: str) -> Reading:
            reading = super().read(text)
            reading.labels[text.index("7")] = LABELS.index("S-record")
            return reading

    spans = Model(MODEL, _Numbering((), 0, likely=likely))(text)
    assert [text[one.start : one.end] for one in spans] == found


@needs_model
def test_one_character_in_doubt_is_enough_for_such_words_to_stay() -> None:
    text = "耳鸣半年，幸福，左归丸早晚各9g。"
    assert not Model(MODEL, _Marking(("幸福",), -(10**9), doubted="福", likely=0.99))(text)


@needs_model
@pytest.mark.parametrize(("text", "marked"), [("请〔姓名〕医生会诊", "〔"), ("请〓〓〓医生会诊", "〓〓〓")])
def test_what_was_replaced_stays_however_sure_it_is(text: str, marked: str) -> None:
    assert Model(MODEL, _Marking((marked,), -(10**9)))(text) == []


@needs_model
def test_where_nothing_is_doubtful_it_reads_for_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "NEAR_LEAD", 10**9)
    for text, read in (("家属罗小燕拒绝检查。", True), ("住余姚市梨洲街道。", False)):
        reading = _Marking((), 10**9, text)
        found = Model(MODEL, reading)(text)
        assert (reading.texts, len(found)) == (([text], 0) if read else ([], 1))


@needs_model
@pytest.mark.parametrize(
    ("before", "is_read"),
    [("饭后服用。", False), ("患者〔姓名〕。", True), ("患者〓〓〓。", True), ("住余姚市梨洲街道。", True)],
)
def test_where_an_identifier_is_less_doubt_is_enough(
    before: str, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, doubtful = "饭后服用，每日三次，忌辛辣油腻。" * 3, "石榴到窗口取药。"
    text = before + plain + doubtful
    monkeypatch.setattr(tagging, "NEAR_LEAD", -(10**9))
    reading = _Marking(("石榴",), 10**9)
    found = [text[one.start : one.end] for one in Model(MODEL, reading)(text)]
    assert any(doubtful in each for each in reading.texts) == is_read
    assert found == [*(["余姚市梨洲街道"] if "余姚" in before else []), *(["石榴"] if is_read else [])]


@needs_model
def test_beside_a_name_that_was_refuted_no_less_doubt_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    named, doubtful = "家属罗小燕拒绝检查。" + "饭后服用，每日三次，忌辛辣油腻。" * 3, "石榴到窗口取药。"
    monkeypatch.setattr(tagging, "NEAR_LEAD", -(10**9))
    for doubted, is_read in (("罗小燕", False), ("", True)):
        reading = _Marking((), 10**9, doubted)
        Model(MODEL, reading)(named + doubtful)
        assert any(doubtful in each for each in reading.texts) == is_read


@needs_model
def test_an_encoder_that_reads_sooner_everywhere_needs_no_more_doubt_near_identifiers() -> None:
    reading = _Marking((), -(10**9))
    Model(MODEL, reading)("饭后服用，每日三次，忌辛辣油腻。")
    assert reading.texts == ["饭后服用，每日三次，忌辛辣油腻。"]


def test_what_is_likely_is_what_is_not_other_text(tmp_path: Path) -> None:
    characters = characters_of(WORDS, [])
    encoder = Encoder(arrays_with(started(saved(tmp_path), WORDS, characters, layers=1)[0], characters))
    likely = encoder.read("患者王，头痛").likely
    np.testing.assert_allclose(likely, np.exp(encoder.scores("患者王，头痛"))[:, 1:].sum(axis=1), rtol=1e-5)
    assert encoder.read("").likely.shape == (0,)


@needs_model
def test_the_encoder_reads_no_piece_that_is_sure_to_hold_nothing() -> None:
    plain, doubtful = "饭后服用，每日三次，忌辛辣油腻。", "石榴到窗口取药。"
    leads = [int(Model(MODEL).labels(text).greatest.max()) for text in (plain, doubtful)]
    assert leads[0] < leads[1]
    reading = _Marking(("辛辣", "石榴"), (leads[0] + leads[1]) // 2)
    model = Model(MODEL, reading)
    assert model(plain) == [] and len(model(doubtful)) == 1
    assert reading.texts == [doubtful]


@needs_model
def test_bare_numbers_of_beds_are_read_sooner_than_the_linear_model_takes_them_for_any() -> None:
    text = "交：7低热，8～10出院。"
    reading = _Marking((), 0)
    assert Model(MODEL)(text) == Model(MODEL, reading)(text) == []
    assert reading.texts == [text]
    assert Model(MODEL, unread := _Marking((), 100))(text) == [] and unread.texts == []


@needs_model
def test_of_a_long_text_only_the_doubtful_passage_is_read() -> None:
    plain, doubtful = "饭后服用，每日三次，忌辛辣油腻。", "家属罗小燕拒绝检查。"
    text = plain * 30 + doubtful + plain * 30
    reading = _Marking(("检查", "属罗小"), 0)  # the second lies on a name that was found
    found = Model(MODEL, reading)(text)
    assert [(text[one.start : one.end], one.rule) for one in found] == [("罗小燕", "recogniser"), ("检查", "encoder")]
    assert len(reading.texts) == 1 and doubtful in reading.texts[0] and len(reading.texts[0]) <= 200


@needs_model
@pytest.mark.parametrize("ends", ["", "。", "\n"])
def test_dense_text_is_read_once_in_passages_of_a_bounded_length(ends: str) -> None:
    signs = list("家属罗小燕拒绝检查，石榴") + ([ends] if ends else [])
    text = "".join(np.random.default_rng(0).choice(signs, 5_000))
    reading = _Marking((), -(10**9))
    Model(MODEL, reading)(text)
    assert "".join(reading.texts) == text
    assert max(map(len, reading.texts)) <= 200


def test_it_needs_the_recogniser_and_its_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="recogniser at true"):
        make_plan(recogniser=False, encoder=True)
    monkeypatch.setattr(encoders, "WEIGHTS", tmp_path / "absent.npz")
    with pytest.raises(UserError, match=r"absent\.npz"):
        encoders.shipped_encoder()
    monkeypatch.setattr(tagging, "MODEL", tmp_path / "no_model.npz")
    find = tagging.shipped_recogniser.__wrapped__
    assert find() is None
    with pytest.raises(UserError, match=r"no_model\.npz"):
        find(True)


def test_results_without_it_keep_their_identity() -> None:
    assert "encoder" not in DeidentifyParams().model_dump()
    assert DeidentifyParams(encoder=True).model_dump()["encoder"] is True


@needs_model
@needs_weights
@pytest.mark.parametrize(
    "marked",
    [
        "{平安是福}（9床）：护士长，我爸的20%白蛋白今天还输吗",
        "{高峰}你别吓我们，昨天还好好的怎么进ICU了",
        "取消预约成功:{成龙飞},心血管内科,04-27下午,号源已释放。一个月内爽约三次将限制预约。",
    ],
)
def test_names_that_only_it_finds(marked: str) -> None:
    text, name = marked.replace("{", "").replace("}", ""), marked[marked.index("{") + 1 : marked.index("}")]
    assert name in deidentify(text)[0]
    treated, found = explain(text, Plan(encoder=True))
    assert name not in treated and [one.rule for one in found if one.written == name] == ["encoder"]


@needs_model
@needs_weights
def test_it_takes_no_medical_value_away() -> None:
    plan = Plan(encoder=True)
    for text, spans in read_sentences(LABELLED.with_name("medical_values.jsonl"))[::6]:
        replaced = {at for one in explain(text, plan)[1] for at in range(one.start, one.end)}
        assert all(replaced.isdisjoint(range(start, end)) for start, end, kind in spans if kind == "value"), text


def test_the_weights_of_the_encoder_are_small() -> None:
    assert WEIGHTS.stat().st_size < 5 << 20
