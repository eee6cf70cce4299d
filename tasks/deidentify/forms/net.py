"""Addresses on the internet: the whole of a URL or a mailbox around the signs that give it away."""

from __future__ import annotations

import re

from tasks.deidentify.forms.identifier import Span

_LONGEST_MAILBOX = 64
"""Characters before an @ (RFC 5321, section 4.5.3.1.1)."""

# matches: "发到zhang.san_1"
# not: "发到"
_MAILBOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_\-]{0,63} ?$")
# matches: "@mail.example.cn"
# not: "@10.1"
_DOMAIN_LETTER = re.compile(r"\.[A-Za-z]")


# matches: " 163 点 com", "qq点com", "163.com", ")hosp(dot)cn", " 126 dot com"
# not: "一下", "8点半", "8.com"
_SPELLED_DOMAIN = re.compile(
    r"[)\]）】]?+ ?(?:[a-z][a-z0-9\-]{1,30}?|1\d\d) ?(?:点|\.|[(\[（【 ]dot[)\]）】 ]) ?"
    "(?:com|cn|net|org|edu)(?![A-Za-z0-9])"
)


def spelled_mailbox(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A mailbox whose @ is a word or another mark, so that no program gathers it: a艾特163点com, b(at)qq(dot)com."""
    is_in_brackets = text[start - 1 : start] in tuple("([（【")
    is_latin = text[start].isascii() and text[start].isalpha()  # at, which may be inside a word: chat
    if is_latin and not is_in_brackets and text[start - 1 : start] != " ":
        return []
    domain = _SPELLED_DOMAIN.match(text, end)
    stop = start - is_in_brackets
    left = max(free_from, stop - _LONGEST_MAILBOX)
    mailbox = _MAILBOX.search(text[left:stop]) if domain else None
    return [(left + mailbox.start(), domain.end())] if domain and mailbox else []


def url_span(text: str, match: re.Match[str], free_from: int) -> Span:
    """A URL without the marks of the sentence that follow it: http://a.cn/x, ends before the comma."""
    return match.start(), match.start() + len(match[0].rstrip(".,;:!?'*"))


# matches: "在“pacs.zyfy-cloud"
# not: "在"
_DOMAIN_BEFORE = re.compile(r"(?<![A-Za-z0-9.\-@])[a-z][a-z0-9\-]{1,30}(?:\.[a-z0-9\-]{1,30}){0,3}$")
# matches: ".cn/share", "/a?b=1", ":8443"
# not: "-a"
_DOMAIN_BEHIND = re.compile(r"(?:\.[a-z]{2,3})?(?![A-Za-z0-9\-])(?::\d{2,5}(?!\d))?(?:/[A-Za-z0-9\-._/?%&=#]{0,200}+)?")


def domain_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A web address without http:// or www. around its ending: pacs.zyfy-cloud.cn/share."""
    left = max(free_from, start - _LONGEST_MAILBOX)
    domain, behind = _DOMAIN_BEFORE.search(text[left : start - 1]), _DOMAIN_BEHIND.match(text, end)
    if domain is None or behind is None:
        return []
    return [(left + domain.start(), end + len(behind[0].rstrip(".,?")))]


def email_span(text: str, match: re.Match[str], free_from: int) -> Span | None:
    """A mailbox with its domain, which is what matched; None where either is missing (a@5.3)."""
    # Searching backwards from each @ keeps the cost of "aaaa…@" linear.
    mailbox = _MAILBOX.search(text[max(free_from, match.start() - _LONGEST_MAILBOX) : match.start()])
    if not mailbox or not _DOMAIN_LETTER.search(match[0]):
        return None
    return match.start() - len(mailbox[0]), match.start() + len(match[0].rstrip("-."))
