"""The page in headless Chromium: a record is typed, analysed and shown; by keyboard, in two languages, at any width."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.service.settings import KEY_VARIABLE
from infra.settings import REPOSITORY
from tests.support.service import folders
from tests.support.service.browser import CHROMIUM, Browser, browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is on this machine"),
]

NOTE = (
    "😀患者王伟，电话13812345678，高血压10年，头痛。\n\n初步诊断：\n1. 高血压病3级\n2、肺部感染，否认哮喘\n\n医师：李娜"
)

# The least contrast of what is visible, by WCAG's formula; its texts need 4.5.
CONTRAST = """(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  for (const one of document.querySelectorAll("body *")) {
    const shown = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!shown || !one.checkVisibility() || one.tagName === "NOSCRIPT") continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least[0]) least = [ratio, one.outerHTML.slice(0, 80)];
  }
  return least;
})()"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running service with all engines."""
    root = tmp_path_factory.mktemp("served")
    command = [
        *(sys.executable, "-m", "flows", "serve", "--port", "0", "--deidentify"),
        *("--normaliser", str(folders.save_normaliser(root / "index"))),
        *("--linker", str(folders.save_graph(root / "store"))),
        *("--model", f"departments={folders.save_model(root / 'model', folders.SINGLE)}"),
        *("--model", f"cmeee={folders.save_model(root / 'tagger', folders.TAGGED)}"),
    ]
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        yield next(found[1] for line in lines if (found := re.search(r"(http://\S+/) is ready", line)))
        process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def tab(chromium: Browser, address: str) -> Browser:
    """The page, freshly opened in Chinese."""
    chromium.size(1280, 900)
    chromium.scheme("light")
    chromium.open(address)
    chromium.value("localStorage.clear()")
    chromium.open(f"{address}?{time.monotonic_ns()}")
    chromium.complaints.clear()
    chromium.until("document.getElementById('foot').textContent")
    return chromium


def analysed(tab: Browser, note: str) -> None:
    """Type a note and send it by the keyboard."""
    tab.value("document.getElementById('record').focus()")
    tab.type(note)
    tab.press("Enter", control=True)
    tab.until("/^(完成|Done)/.test(document.getElementById('status').textContent)")


def text_of(tab: Browser, selector: str) -> str:
    return str(tab.value(f"document.querySelector({json.dumps(selector)}).innerText"))


def test_entity_without_a_type_is_said_to_have_none(tab: Browser) -> None:
    analysed(tab, "皮疹三天，无头痛。")
    marks = tab.value("[...document.querySelectorAll('#text > mark')].map((one) => [one.textContent, one.title])")
    assert marks == [["皮疹", "无类型: 皮疹 (x1)"], ["头痛症状", "症状: 头痛 (s1)"]]
    assert "无类型 1" in text_of(tab, "#legend")
    tab.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert "无类型" in text_of(tab, "#entities")


def test_record_is_deidentified_marked_and_coded(tab: Browser, address: str) -> None:
    analysed(tab, NOTE)
    shown = str(tab.value("document.getElementById('text').textContent"))
    assert "王伟" not in shown and "13812345678" not in shown and "李娜" not in shown
    assert shown.startswith("😀患者〔姓名〕，电话〔手机号〕，高血压")
    hidden = tab.value("[...document.querySelectorAll('#text mark.identifier')].map((one) => one.textContent)")
    assert hidden == ["〔姓名〕", "〔手机号〕", "〔姓名〕"]
    marks = tab.value("[...document.querySelectorAll('#text > mark:not(.identifier)')].map((one) => one.textContent)")
    assert marks == ["高血压疾病", "头痛症状", "高血压病疾病"]
    assert tab.value("document.getElementById('diagnoses').value") == "高血压病3级\n肺部感染，否认哮喘"
    codes = tab.value("[...document.querySelectorAll('#codes .answer .code')].map((one) => one.textContent)")
    assert codes[0] == "I10" and "J18.9" in codes
    card = text_of(tab, "#codes .card:last-child")
    assert "已编码" in card and "否认哮喘" in card and "否认" in card
    tab.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    reasons = text_of(tab, "#codes .card .reasons")
    assert "匹配部分" in reasons and "未匹配部分" in reasons and "依据名称" in reasons
    assert tab.value("document.querySelectorAll('#codes .card table tr').length") > 2, "candidates"
    assert "departments" in text_of(tab, "#labels")
    # The other model's entities, by the keyboard.
    tab.value("document.querySelector('#layers input').focus()")
    tab.press("ArrowDown")
    tab.value("document.querySelectorAll('#layers input')[1].click()")
    assert tab.value("document.querySelectorAll('#layers input')[1].checked") is True
    assert tab.complaints == []
    assert {one.removeprefix(address).partition("?")[0] for one in tab.requested if not one.startswith("data:")} <= {
        "", "page.css", "page.js", "health", "link", "deidentify", "normalise", "predict/cmeee", "predict/departments",
    }  # fmt: skip


def test_languages_and_names_for_screen_readers(tab: Browser) -> None:
    analysed(tab, NOTE)
    for language, word in (("zh-CN", "病历"), ("en", "Record")):
        assert tab.value("document.documentElement.lang") == language
        assert tab.value("document.querySelector('label[for=record]').textContent") == word
        # Nothing is left in the other language, but for what the person typed and the service answered.
        labels = tab.value("[...document.querySelectorAll('[data-text]')].map((one) => one.textContent.trim())")
        assert all(labels) and (language == "zh-CN") == any(re.search(r"[\u4e00-\u9fff]{3}", one) for one in labels[:2])
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        for role in ("textbox", "button", "link", "radio"):
            named = [one["name"]["value"] for one in nodes if one.get("role", {}).get("value") == role]
            assert named and all(named), role
        tab.value("document.getElementById('language').click()")
    assert tab.value("document.querySelectorAll('[role=status], [role=alert]').length") == 2
    assert tab.value("[...document.querySelectorAll('th')].every((one) => one.scope)") is True


def test_keyboard_reaches_everything_in_order(tab: Browser) -> None:
    tab.value("document.getElementById('record').focus()")
    reached = []
    for _ in range(5):
        reached.append(tab.value("document.activeElement.id"))
        tab.press("Tab")
    assert reached == ["record", "diagnoses", "send", "example", "clear"]
    tab.value("document.getElementById('example').focus()")
    tab.press("Enter", text="\r")
    tab.value("document.getElementById('send').focus()")
    tab.press("Enter", text="\r")
    tab.until("document.getElementById('status').textContent.startsWith('完成')")
    assert tab.complaints == []


def test_every_width_and_scheme_is_readable(tab: Browser, tmp_path: Path) -> None:
    analysed(tab, NOTE + "NTRK" * 400 + "高血压" * 300)
    tab.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for width, is_phone in ((1280, False), (390, True), (320, True)):
        tab.size(width, 900, is_phone=is_phone)
        assert tab.value("document.documentElement.scrollWidth") <= width
        for scheme in ("light", "dark"):
            tab.scheme(scheme)
            ratio, where = tab.value(CONTRAST)
            assert ratio >= 4.5, (width, scheme, where)
            assert len(tab.picture(tmp_path / f"{width}-{scheme}.png")) > 20_000


def test_faults_are_told_and_old_results_go(tab: Browser) -> None:
    tab.value("document.getElementById('send').click()")
    tab.until("!document.getElementById('error').hidden")
    assert "请先填写" in text_of(tab, "#error")
    analysed(tab, NOTE)
    assert tab.value("document.getElementById('error').hidden") is True
    tab.value("document.getElementById('record').value = '痛'.repeat(20001)")
    tab.value("document.getElementById('send').click()")
    tab.until("!document.getElementById('error').hidden")
    assert "20,001" in text_of(tab, "#error") and "20,000" in text_of(tab, "#error")
    assert tab.value("document.getElementById('text-section').hidden") is True
    assert tab.value("document.getElementById('send').disabled") is False
    # A text is text, whatever it looks like.
    tab.value("document.getElementById('record').value = ''")
    analysed(tab, "<img src=x onerror=alert(1)><b>高血压</b>")
    assert tab.value("document.querySelectorAll('#text img, #text b').length") == 0
    assert tab.complaints == []


@pytest.mark.parametrize(
    ("record", "diagnoses"),
    [
        ("主诉：头痛。\n诊断：高血压；2型糖尿病", ["高血压", "2型糖尿病"]),
        ("出院诊断\n1.高血压病3级 2.糖尿病\n(3)胃炎\n④肺炎。\n\n医嘱：休息", ["高血压病3级", "糖尿病", "胃炎", "肺炎"]),
        ("入院诊断：1、冠心病\n治疗经过：1、输液\n出院诊断：1、心绞痛", ["冠心病", "心绞痛"]),
        ("三、初步诊断：10. 2型糖尿病", ["2型糖尿病"]),
        ("诊断：3.5cm肿物", ["3.5cm肿物"]),
        ("诊断：1.2型糖尿病 2.高血压", ["2型糖尿病", "高血压"]),
        ("患者诊断明确，予治疗。", []),
        ("", []),
    ],
)  # fmt: skip
def test_diagnoses_are_taken_from_their_section(record: str, diagnoses: list[str], tab: Browser) -> None:
    assert tab.value(f"diagnosesOf({json.dumps(record)})") == diagnoses
