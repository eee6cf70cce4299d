"""The command deidentify: texts, files and stdin in; texts, reasons and the table of kinds out."""

from __future__ import annotations

import codecs
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flows.cli import main
from tasks.deidentify.kinds import KINDS
from tasks.deidentify.operators import KEY_VARIABLE
from tasks.deidentify.recogniser.tagging import MODEL

SAID = "患者王伟，93岁，电话13812345678"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["deidentify", *arguments]) == 0
    return capsys.readouterr().out


def test_text_file_and_stdin_give_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = "患者〔姓名〕，93岁，电话〔手机号〕\n"
    assert printed(capsys, SAID) == wanted
    for encoding in ("utf-8", "utf-8-sig", "gb18030", "utf-16", "utf-16-be"):
        (tmp_path / "note.txt").write_text(SAID, encoding=encoding)
        assert printed(capsys, str(tmp_path / "note.txt")) == wanted
    for dash in ((), ("-",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SAID.encode())))
        assert printed(capsys, *dash) == wanted


@pytest.mark.parametrize(
    ("given", "told"), [("notes/none.txt", "no file notes/none.txt"), (".", ". is a folder"), ("", "The text is empty")]
)
def test_missing_files_and_folders_are_no_texts(given: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deidentify", given]) == 2
    assert told in capsys.readouterr().err


def test_a_pipe_is_read_and_a_device_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(SAID,), kwargs={"encoding": "utf-8"})
    writer.start()
    assert printed(capsys, str(pipe)) == "患者〔姓名〕，93岁，电话〔手机号〕\n"
    writer.join()
    assert main(["deidentify", "/dev/zero"]) == 2
    assert "neither a file nor a folder" in capsys.readouterr().err


def test_utf_32_is_refused_and_escapes_of_json_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for encoding in ("utf-32", "utf-32-be"):
        (tmp_path / "note.txt").write_bytes((codecs.BOM_UTF32_BE if "be" in encoding else b"") + SAID.encode(encoding))
        assert main(["deidentify", str(tmp_path / "note.txt")]) == 2
        assert "is in UTF-32; convert it to UTF-8" in capsys.readouterr().err
    assert main(["deidentify", json.dumps({"text": SAID})]) == 0
    assert "characters escaped as in JSON" in capsys.readouterr().err
    assert main(["deidentify", json.dumps({"text": SAID}, ensure_ascii=False)]) == 0
    assert not capsys.readouterr().err


def test_a_note_in_big5_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.txt").write_bytes("患者王大明，四十五歲，因反覆咳嗽、發燒三日入院。".encode("big5"))
    assert main(["deidentify", str(tmp_path / "note.txt")]) == 0
    assert capsys.readouterr().out == "患者〔姓名〕，四十五歲，因反覆咳嗽、發燒三日入院。\n"
    (tmp_path / "note.txt").write_bytes("患者王大明，咳嗽。".encode("big5") + b"\xff\xff")
    assert main(["deidentify", str(tmp_path / "note.txt")]) == 2
    assert "neither UTF-8, UTF-16, GB18030 nor Big5" in capsys.readouterr().err


def test_output_that_cannot_be_written_is_told_in_a_line() -> None:
    command = [sys.executable, "-m", "flows", "deidentify", SAID]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert ended.returncode == 2 and ended.stderr.startswith("error: The output cannot be written: no space")
    ascii_only = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, capture_output=True, text=True, env=ascii_only, check=False, timeout=120)
    assert ended.returncode == 2 and "Set PYTHONUTF8=1" in ended.stderr and ended.stderr.count("\n") == 1


def test_explain_says_place_kind_and_rule(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, SAID, "--explain", "--profile", "hipaa", "--off", "mobile").splitlines()
    assert lines[0] == "患者〔姓名〕，〔高龄〕，电话13812345678"
    assert lines[1].split() == ["place", "text", "kind", "becomes", "rule"]
    assert lines[2].startswith("2-4    王伟") and "cue 患者 (names of persons)" in lines[2]
    assert lines[3].startswith("5-8    93岁") and "age" in lines[3]
    assert lines[4:] == ["2 identifiers"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b"%PDF-1.4\nBT (Patient Zhang Wei) Tj ET",
            "{} is a PDF, not plain text. `run corpus/refresh --param corpus={}`",
        ),
        (
            rb"{\rtf1\ansi\ansicpg936 \'cd\'f5\'ce\'b0}",
            "{} is an RTF, which writes Chinese characters as codes, not plain text. Save it as text",
        ),
        (
            b"PK\x03\x04word",
            "{} is a DOCX, an XLSX or another ZIP, not plain text. `run corpus/refresh --param corpus={}`",
        ),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "{} is an office file with a password or of before 2007, not plain text. Save",
        ),
    ],
)
def test_documents_of_other_formats_are_no_texts(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "note.txt"
    file.write_bytes(content)
    assert main(["deidentify", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and told.format(file, file) in captured.err


def test_a_table_that_is_not_for_a_terminal_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deidentify", SAID, "--explain"]) == 0
    assert "the table of --explain shows the identifiers" in capsys.readouterr().err
    assert main(["deidentify", "头痛三天", "--explain"]) == 0
    assert capsys.readouterr().err == ""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.skipif(not MODEL.exists(), reason="the weights are not there")
def test_a_bar_on_a_terminal_shows_how_much_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flows.cli.deidentify.SECONDS_BEFORE_A_BAR", 0.05)
    monkeypatch.setattr("sys.stderr", terminal := _Terminal())
    text = "患者王伟，" + "".join(f"第{number}天头痛如前，血压平稳。" for number in range(10_000))
    assert main(["deidentify", text]) == 0
    shown = [line.strip() for line in terminal.getvalue().split("\r")]
    assert any(f"/{len(text) / 1000:.0f}k" in line for line in shown)
    assert shown[-2:] == ["", ""]  # nothing of it stays
    assert capsys.readouterr().out == text.replace("王伟", "〔姓名〕") + "\n"


def test_the_encoder_reads_again_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    text = "取消预约成功:成龙飞,心血管内科,04-27下午,号源已释放。一个月内爽约三次将限制预约。"
    assert "成龙飞" in printed(capsys, text)
    lines = printed(capsys, text, "--encoder", "--explain").splitlines()
    assert "取消预约成功:〔姓名〕," in lines[0] and "encoder (names of persons)" in lines[2]


def test_control_characters_are_not_shown_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "姓名：王\x1b[31m伟，QQ：847261593", "--explain").splitlines()[1:]
    assert not any("\x1b" in line for line in shown)


def test_encrypted_text_is_restored(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "k" * 40)
    sealed = printed(capsys, SAID, "--operator", "encrypt", "--operator", "mobile=mask")
    assert "王伟" not in sealed and "***********" in sealed
    assert printed(capsys, sealed, "--restore") == "患者王伟，93岁，电话***********\n"


def test_ciphertexts_that_cannot_be_read_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "k" * 40)
    sealed = printed(capsys, SAID, "--operator", "encrypt")
    unread = "〔姓名=abc〕，〔课题号=q83vEjRWeJCrze8SNFZ4kA==〕，〔姓名=q83v"
    assert main(["deidentify", sealed.rstrip("\n") + unread, "--restore"]) == 0
    shown = capsys.readouterr()
    assert shown.out == SAID + unread + "\n"
    assert shown.err.startswith("warning: 3 of the ciphertexts") and "--rules" in shown.err
    assert main(["deidentify", sealed, "--restore"]) == 0
    assert capsys.readouterr().err == ""


def test_table_of_kinds_has_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "--kinds").splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(KINDS)
    assert "hipaa" in next(line for line in lines if line.startswith("date "))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "hippa"], "--profile hippa: there are minimal, hipaa, gbt35273"),
        (["--on", "hopsital"], "there is no kind 'hopsital'; did you mean hospital"),
        (["--operator", "date=shfit"], "there is no operator 'shfit'"),
        (["--operator", "name=shift"], "--operator name: shift is for birth_date and date only"),
        (["--operator", "shift"], "--operator: shift is for dates; set --operator date=shift instead"),
        (["--operator", "foo=mask"], "--operator foo: there is no kind 'foo'"),
        (["--off", "names"], "--on or --off: there is no kind 'names'; did you mean name"),
        (["--rules", "absent.toml"], "there is no file absent.toml"),
        (["--operator", "hash"], "YIWEN_DEIDENTIFY_KEY is not set"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert main(["deidentify", SAID, *arguments]) == 2
    assert message in capsys.readouterr().err
