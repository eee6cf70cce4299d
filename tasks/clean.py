"""Stage `clean`: what is no text goes, documents that are none are dropped with their reason.

A profile is a set of rules; those of the papers are presets (`PROFILES`). Case, full-width forms and numerals
stay as they are: the tokeniser normalises them. Time grows with the characters, memory with one part.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping
from typing import Any

import regex
from pydantic import BaseModel, ConfigDict, Field, field_validator

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.documents import document_id

MAX_PASSES = 8
"""After so many uncovered layers a text is no document but an attack: its markup characters all go."""


class CleanProfile(BaseModel):
    """Rules of one kind of source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strip_markup: bool = Field(default=True, description="HTML tags and entities")
    strip_addresses: bool = Field(default=False, description="URLs and e-mail addresses")
    only_text: bool = Field(default=False, description="keep letters, digits, punctuation and signs only")
    min_characters: int = Field(default=1, ge=1, description="shorter documents are dropped")
    min_han_share: float = Field(
        default=0.0, ge=0, le=1, description="documents with a lower share of Chinese characters are dropped"
    )


PROFILES: Mapping[str, CleanProfile] = {
    "ehealth": CleanProfile(min_han_share=0.1),
    "smedbert": CleanProfile(strip_addresses=True, only_text=True, min_characters=256),
}
"""eHealth, section 4.1: "minimum" denoising. SMedBERT, appendix: URLs, HTML, e-mail addresses and other tokens
than characters, digits and punctuation go, documents under 256 are dropped.
"""

# Every pattern is linear in the text: it stops at what may begin another match, or at a bound.
# Tags are known by their names and attributes: "收缩压<a 且 b>c" is none.
_ATTRIBUTES = r"(?:\s[^<>\n=]{0,100}=[^<>\n]{0,500})?\s*/?>"
_BLOCK = regex.compile(
    r"</?(?:p|br|div|li|ul|ol|tr|table|h[1-6]|hr|section|article|blockquote|pre|dd|dt|dl|title)" + _ATTRIBUTES,
    regex.IGNORECASE,
)
_TAG = regex.compile(
    r"</?(?:a|b|i|u|s|em|strong|span|font|img|sup|sub|small|big|td|th|tbody|thead|html|head|body|meta|link|script|style|"
    r"input|form|label|center|code|iframe|video|audio|source|button|option|select|textarea|del|ins|mark|nav|header|"
    r"footer|main|o:p)" + _ATTRIBUTES + r"|<!--[^<>]{0,500}-->",
    regex.IGNORECASE,
)
_AMPERSANDS = regex.compile(r"&(?:(?:amp|#38|#x26);)+", regex.IGNORECASE)
_ADDRESS = regex.compile(
    r"(?:https?://|www\.)[\w\-./?%&=#:~+,;@!]+|(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,64}(?:\.[\w\-]{1,64})+", regex.ASCII
)
_NO_TEXT = regex.compile(r"[^\p{L}\p{M}\p{N}\p{P}\p{Sm}\p{Zs}\n°℃℉Ωµ%‰]")
_INVISIBLE = regex.compile(r"[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}--[\n]]", regex.VERSION1)
_BLANKS = regex.compile(r"[^\S\n]+")
_LINE_ENDS = regex.compile(r" ?\n[ \n]*")
_NO_MARKUP = str.maketrans("", "", "<>&")
_HAN = regex.compile(r"\p{Han}")


def clean_text(text: str, profile: str | CleanProfile = "ehealth") -> str:
    """The text after the rules of a profile; cleaning it again changes nothing.

    Raises:
        KeyError: there is no profile of that name.
    """
    rules = PROFILES[profile] if isinstance(profile, str) else profile
    for _ in range(MAX_PASSES):
        cleaned = _clean_once(text, rules)
        if cleaned == text:
            return text
        text = cleaned  # taking something away may uncover more: "&amp;lt;b>", "<<b>b>"
    while (cleaned := _clean_once(text.translate(_NO_MARKUP), rules)) != text:
        text = cleaned
    return text


def _clean_once(text: str, rules: CleanProfile) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _BLANKS.sub(" ", text)
    text = _INVISIBLE.sub("", text)
    if rules.strip_markup:
        text = html.unescape(_AMPERSANDS.sub("&", _TAG.sub("", _BLOCK.sub("\n", text))))
    if rules.strip_addresses:
        text = _ADDRESS.sub("", text)
    if rules.only_text:
        text = _NO_TEXT.sub("", text)
    return _LINE_ENDS.sub("\n", _BLANKS.sub(" ", text)).strip()


class CleanParams(StageParams):
    """The profile by name, or its rules."""

    profile: str | CleanProfile = "ehealth"

    @field_validator("profile")
    @classmethod
    def _known(cls, profile: str | CleanProfile) -> str | CleanProfile:
        if isinstance(profile, str) and profile not in PROFILES:
            raise ValueError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
        return profile


@stage(name="clean", version=1, params=CleanParams, tables=("documents", "rejects"))
def clean(inputs: Mapping[str, Artifact], params: CleanParams, out: Output) -> None:
    """Clean `inputs["documents"]`, part by part."""
    out.map(clean_part, inputs["documents"].parts("documents"), params)


def clean_part(part: PartWriter, documents: Part, params: CleanParams) -> None:
    """Clean one part."""
    rules = PROFILES[params.profile] if isinstance(params.profile, str) else params.profile
    kept = []
    for row in documents.read().to_pylist():
        part.count("documents_in")
        cleaned = _clean_row(row, rules)
        problem = _problem(cleaned["text"], rules)
        if problem:
            reason, detail = problem
            part.reject(doc_id=row["doc_id"], source=row["source"], reason=reason, detail=detail, text=cleaned["text"])
            continue
        part.count("characters_removed", len(row["text"]) - len(cleaned["text"]))
        kept.append(cleaned)
    part.write("documents", kept)


def _clean_row(row: dict[str, Any], rules: CleanProfile) -> dict[str, Any]:
    title = clean_text(row["title"], rules).replace("\n", " ")
    text = clean_text(row["text"], rules)
    return {**row, "doc_id": document_id(row["source"], title, text), "title": title, "text": text}


def _problem(text: str, rules: CleanProfile) -> tuple[str, str] | None:
    """Why a cleaned document is dropped: reason and detail."""
    if not text:
        return "empty", "nothing is left after cleaning"
    if len(text) < rules.min_characters:
        return "too_short", f"{len(text)} characters, at least {rules.min_characters} are asked for"
    share = len(_HAN.findall(text)) / sum(1 for c in text if not unicodedata.category(c).startswith("Z"))
    if share < rules.min_han_share:
        return "little_chinese", f"{share:.0%} Chinese characters, at least {rules.min_han_share:.0%} are asked for"
    return None
