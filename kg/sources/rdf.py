r"""RDF in N-Triples (https://www.w3.org/TR/n-triples/): one triple per line, UTF-8, IRIs in <>, literals in "".

The name of a resource is its rdfs:label or skos:prefLabel, preferably a Chinese one, else the last segment of its IRI;
the name of a relation is always that segment. rdf:type gives types. Literals are ordinary tails, without language and
datatype.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import polars as pl

from infra.errors import UserError
from kg.sources.source_triples import SourceTriples, checked

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABELS = ("http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel")

_LINE = (
    r"^\s*(?:<(?<head_iri>[^<>\s]*)>|(?<head_blank>_:\S+))\s*<(?<relation>[^<>\s]*)>\s*"
    r'(?:<(?<tail_iri>[^<>\s]*)>|(?<tail_blank>_:\S+)|"(?<literal>(?:[^"\\]|\\.)*)"'
    r"(?:@(?<language>[A-Za-z0-9-]+)|\^\^<[^<>\s]*>)?)\s*\.\s*(?:#.*)?$"
)
"""`<http://x/a> <http://x/b> "糖尿病"@zh .`, `_:a <http://x/b> <http://x/c> . # note`; not `<a> <b> <c>`."""
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
r"""`\u75C5`, `\U000075C5`, `\n`; not `u75C5`."""
_NAMED_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def read_ntriples(path: str | Path) -> SourceTriples:
    """Read a .nt file; lines that are not triples are rejected with their number, except comments and blank lines.

    Raises:
        UserError: the file cannot be read as UTF-8.
    """
    file = Path(path)
    try:
        lines = pl.Series("line", file.read_text(encoding="utf-8-sig").split("\n"), pl.String)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read as N-Triples in UTF-8: {error}.") from error
    said = lines.to_frame().with_row_index("row", 1).filter(~pl.col("line").str.contains(r"^\s*(?:#.*)?$"))
    parts = said.with_columns(pl.col("line").str.extract_groups(_LINE).alias("parts")).unnest("parts")
    readable = parts["relation"].is_not_null()
    rejects = parts.filter(~readable).select(
        pl.format("{}#{}", pl.lit(file.name), pl.col("row")).alias("place"),
        pl.lit("unreadable_row").alias("reason"),
        pl.lit("no triple of N-Triples").alias("detail"),
        pl.col("line").str.slice(0, 80).alias("excerpt"),
    )
    triples = parts.filter(readable).select(
        pl.coalesce("head_iri", "head_blank").alias("head"),
        "relation",
        pl.coalesce("tail_iri", "tail_blank").alias("tail"),
        _unescaped("literal"),
        "language",
        "row",
    )
    # Labels and types describe resources; all other triples are facts.
    names = _names(triples)
    plain = triples.filter(~pl.col("relation").is_in([*LABELS, RDF_TYPE]))
    rows = plain.select(
        _named("head", names), _named("relation", {}), pl.coalesce("literal", _named("tail", names)).alias("tail")
    )
    found = checked(rows, file.name)
    typed = triples.filter((pl.col("relation") == RDF_TYPE) & pl.col("tail").is_not_null()).sort("head", "tail")
    types = {
        names.get(head, _local(head)): names.get(tail, _local(tail))
        for head, tail in typed.select("head", "tail").unique("head", keep="first", maintain_order=True).iter_rows()
    }
    return SourceTriples(found.triples, pl.concat([rejects, found.rejects]), types)


def _names(triples: pl.DataFrame) -> dict[str, str]:
    """Return the label of each resource with one: preferably Chinese, then without a language, then the first."""
    labels = triples.filter(pl.col("relation").is_in(LABELS) & pl.col("literal").is_not_null())
    language = pl.col("language").fill_null("")
    rank = pl.when(language.str.to_lowercase().str.starts_with("zh")).then(0).when(language == "").then(1).otherwise(2)
    best = labels.sort("head", rank, "literal").unique("head", keep="first", maintain_order=True)
    return dict(best.select("head", "literal").iter_rows())


def _named(column: str, names: dict[str, str]) -> pl.Expr:
    return pl.col(column).map_elements(lambda iri: names.get(iri, _local(iri)), return_dtype=pl.String)


def _local(iri: str) -> str:
    """Return the last segment of an IRI: `糖尿病` of http://example.org/kg/糖尿病, percent-encoded or not."""
    return unquote(re.split(r"[#/]", iri.rstrip("#/"))[-1])


def _unescaped(column: str) -> pl.Expr:
    escaped = pl.col(column).str.contains(r"\\")
    plain = pl.col(column).map_elements(lambda text: _ESCAPE.sub(_character, text), return_dtype=pl.String)
    return pl.when(escaped).then(plain).otherwise(pl.col(column)).alias(column)


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is None:
        return _NAMED_ESCAPES.get(match[3], match[3])
    number = int(code, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
