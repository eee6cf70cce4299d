"""Persons named outside the sentences of a document: under a key of `meta`, in the path of its file, as a speaker.

Time grows with the characters. Many documents share a path, so the identifiers of a path are cached.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from infra.console.printable import one_line
from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.forms.names import MAX_NAME, is_name
from tasks.deidentify.search.find import find_identifiers, replace

OF_ANYTHING = "签名："
"""Cue for keys that may name anything. Only a person's name is replaced, and only in this value."""

_CUES: Mapping[str, str] = {
    **dict.fromkeys(("patientname", "realname", "fullname"), "姓名："),
    **dict.fromkeys(("doctorname", "doctor", "attending"), "主治医师："),
    **dict.fromkeys(("name", "username", "patient", "speaker", "contact"), OF_ANYTHING),
    **dict.fromkeys(("phone", "tel", "telephone", "phonenumber", "phoneno"), "电话："),
    **dict.fromkeys(("address", "homeaddress"), "住址："),
    **dict.fromkeys(("idcard", "idcardno", "idnumber"), "身份证号："),
    **dict.fromkeys(("wechat", "weixin"), "微信号："),
    **dict.fromkeys(("birthday", "birthdate", "dateofbirth", "dob"), "出生日期："),
    **dict.fromkeys(("occupation", "job"), "职业："),
    **dict.fromkeys(("employer", "workplace"), "工作单位："),
    **dict.fromkeys(("ethnicity", "nation"), "民族："),
    **dict.fromkeys(("postcode", "zipcode", "zip"), "邮编："),
    **dict.fromkeys(("licenseplate", "plate", "plateno"), "车牌号："),
    **dict.fromkeys(("staffno", "staffid", "employeeid"), "工号："),
    **dict.fromkeys(("serialnumber", "serialno"), "序列号："),
    **dict.fromkeys(
        (
            "admissionno", "admissionnumber", "admissionid", "inpatientno", "outpatientno", "patientid", "patientno",
            "recordno", "medicalrecordno", "medicalrecordnumber", "visitno", "mrn",
        ),
        "住院号：",
    ),
}  # fmt: skip
"""Cue by English key of `meta`, in lower case and without separators."""

# matches: "\"patient_name\": ", "\"admissionno\": "
# not: "\"weight\": "
_KEY = re.compile(rf'"(?:{"|".join("[_ -]?".join(key) for key in _CUES)})": ')
_PATH_KEYS = frozenset({"file", "path", "filename"})
# matches: "\"file\": \"emr/1.txt\"", "\"path\": \"a\\\\b\""
# not: "\"profile\": \"a\""
_PATH = re.compile(r'"(?:file|path|filename)": "([^"\\]*(?:\\.[^"\\]*)*)"')
# matches: "王小明"
# not: "/", "_."
_PATH_PIECE = re.compile(r"[^/\\_.\s]+")
_DOSE = r"\s*(?:[\d一两半每]|口服|外用|吸入|静滴|肌注)"
"""Pattern of what follows the name of a drug, not of a speaker: 万托林：每次2喷."""
# matches: "\n王伟：我头痛", "\n阿依古丽·买买提: 好"
# not: "\n患者：三天", "\n万托林：每次2喷", "王伟我头痛："
_SPEAKER = re.compile(rf"\n(?!患者|医生)([\u4e00-\u9fff·*]{{2,{MAX_NAME}}})[：:](?!{_DOSE})")


@functools.lru_cache(maxsize=4096)
def cue_of(key: str) -> str:
    """Return the cue that a key of `meta` stands for; a Chinese key is a cue itself."""
    return _CUES.get(re.sub("[_ -]", "", key).lower(), f"{key}：")


def is_path(key: str) -> bool:
    """Return True for keys of `meta` that hold the path of a file."""
    return key in _PATH_KEYS


def meta_may_name(meta: str) -> bool:
    """Return True if `meta`, as JSON, has a key that is a cue, or the path of a file that holds an identifier."""
    path = _PATH.search(meta)
    return bool((path and in_path(path[1])) or _KEY.search(meta.lower()))


@functools.lru_cache(maxsize=4096)
def in_path(path: str, find: Callable[[str], list[Identifier]] = find_identifiers) -> tuple[Identifier, ...]:
    """Return the identifiers in a path: names, and what `find` finds in the pieces between / \\ _ . and blanks."""
    found = []
    for piece in _PATH_PIECE.finditer(path):
        if is_name(piece[0]):
            found.append(Identifier(*piece.span(), "name", "path of a file"))
        else:
            at = piece.start()
            found += [one._replace(start=at + one.start, end=at + one.end) for one in find(piece[0])]
    return tuple(found)


def harmless_path(path: str) -> str:
    """Return a path for a message: with placeholders for identifiers, and escapes for control characters.

    Other folders, the ending and what is behind it stay, so that the file can be found: `emr/〔姓名〕.jsonl#12`.
    """
    return one_line(replace(path, in_path(path)))


_is_name = functools.lru_cache(maxsize=4096)(is_name)


def speakers(text: str) -> list[Identifier]:
    """Return the names of speakers at the beginnings of a dialogue's lines."""
    lines = _SPEAKER.finditer(f"\n{text}")
    return [Identifier(line.start(1) - 1, line.end(1) - 1, "name", "speaker") for line in lines if _is_name(line[1])]
