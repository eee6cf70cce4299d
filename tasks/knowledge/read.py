"""Stage `read_graph`: the knowledge graph of one source becomes the tables kg_entities and kg_triples.

The formats are those of the readers in kg/sources/. Rows that they cannot use go to `rejects`. The graph is read as a
whole: time and memory grow with its triples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.graph import KnowledgeGraph
from kg.sources import cmekg, delimited, icd10, neo4j, products, rdf
from kg.sources.source_triples import REJECT_SCHEMA, SourceTriples, retyped
from tasks.files.access import is_local
from tasks.files.raw_input import RawInput

Format = Literal["cmekg", "icd10", "triples", "ntriples", "neo4j", "products"]


class ReadGraphParams(StageParams):
    """Format of the source, and the names of its columns."""

    source: str = Field(min_length=1, description="name of the source, kept with every entity and triple")
    format: Format = "triples"
    columns: tuple[str, str, str] = Field(
        default=("head", "relation", "tail"), description="triples: names, or numbers from 1 without a header"
    )
    product_columns: tuple[str, str, str] = ("title", "attribute", "value")
    type_columns: tuple[str, str] | None = Field(
        default=None, description="triples: columns with the types of head and tail"
    )
    header: bool = Field(default=True, description="the first line of a TSV or CSV file names the columns")
    name_property: str = Field(default="name", description="neo4j: property that holds the name of a node")
    separators: str = Field(default="", description="products: characters that separate the values in a cell")
    title_type: str = Field(default="Drug", description="products: type of the titles that are not in `types`")


@stage(name="read_graph", version=3, params=ReadGraphParams, tables=("kg_entities", "kg_triples", "rejects"))
def read_graph(inputs: Mapping[str, RawInput], params: ReadGraphParams, out: Output) -> None:
    """Read `inputs["graph"]`, and `inputs["types"]` if given: a CSV with relation, head_type and tail_type.

    For ICD-10 the CSV has letter and type. Callers that pass the tables of CMeKG (`cmekg.TYPES`) and ICD-10
    (`icd10.CHAPTERS`) as raw input get a new artifact once they are edited.

    Raises:
        UserError: a file does not have the given format or is behind a URI, or no row gives a triple.
    """
    paths = _local_paths(inputs["graph"])
    types = _local_paths(inputs["types"])[0] if "types" in inputs else None
    found = _READERS[params.format](paths, params, types)
    if found.triples.is_empty():
        raise UserError(f"{inputs['graph'].path} has no complete triple (rejected rows: {found.rejects.height:,}).")
    with out.part() as part:
        write_graph(part, found.graph(params.source))
        write_rejects(part, found.rejects.rename({"place": "doc_id", "excerpt": "text"}), params.source)


def write_graph(part: PartWriter, graph: KnowledgeGraph) -> None:
    """Write both tables of a graph."""
    part.write("kg_entities", graph.entities)
    part.write("kg_triples", graph.id_triples())
    part.count("entities", graph.num_entities)
    part.count("triples", graph.num_triples)


def write_rejects(part: PartWriter, rejects: pl.DataFrame, source: str) -> None:
    """Write rows (doc_id, reason, detail, text) as rejects of a source."""
    for row in rejects.iter_rows(named=True):
        part.reject(source=source, **row)


def _local_paths(given: RawInput) -> list[Path]:
    paths = [file.path for file in given.files]
    if remote := [path for path in paths if not is_local(path)]:
        raise UserError(f"{remote[0]}: knowledge graphs are read from local files. Copy it to this machine first.")
    return [Path(path) for path in paths]


def _read_cmekg(paths: list[Path], params: ReadGraphParams, types: Path | None) -> SourceTriples:
    return cmekg.read_cmekg(_only(paths), types or cmekg.TYPES)


def _read_icd10(paths: list[Path], params: ReadGraphParams, types: Path | None) -> SourceTriples:
    by_name = {path.name: path for path in paths}
    if icd10.CATALOGUE not in by_name:
        raise UserError(f"ICD-10 is read from {icd10.CATALOGUE} (and {icd10.DISEASES}). Give these files.")
    return icd10.read_icd10(by_name[icd10.CATALOGUE], by_name.get(icd10.DISEASES), types or icd10.CHAPTERS)


def _read_triples(paths: list[Path], params: ReadGraphParams, types: Path | None) -> SourceTriples:
    head_type, tail_type = params.type_columns or (None, None)
    columns = delimited.Columns(*params.columns, head_type, tail_type, params.header)
    return _joined([delimited.read(path, columns, types) for path in paths])


def _read_products(paths: list[Path], params: ReadGraphParams, types: Path | None) -> SourceTriples:
    columns = delimited.Columns(*params.product_columns, None, None, params.header)
    read = functools.partial(products.read_products, title_type=params.title_type, types=types)
    return _joined([read(path, columns, params.separators) for path in paths])


def _read_ntriples(paths: list[Path], params: ReadGraphParams, types: Path | None) -> SourceTriples:
    return _retyped(_joined([rdf.read_ntriples(path) for path in paths]), types)


def _read_neo4j(paths: list[Path], params: ReadGraphParams, types: Path | None) -> SourceTriples:
    return _retyped(neo4j.read_neo4j(paths, params.name_property), types)


_READERS: Mapping[str, Callable[[list[Path], ReadGraphParams, Path | None], SourceTriples]] = {
    "cmekg": _read_cmekg,
    "icd10": _read_icd10,
    "triples": _read_triples,
    "products": _read_products,
    "ntriples": _read_ntriples,
    "neo4j": _read_neo4j,
}


def _retyped(found: SourceTriples, types: Path | None) -> SourceTriples:
    return found if types is None else retyped(found, types)


def _only(paths: list[Path]) -> Path:
    if len(paths) != 1:
        raise UserError(f"Give one file. There are {len(paths)}: {', '.join(path.name for path in paths)}.")
    return paths[0]


def _joined(found: list[SourceTriples]) -> SourceTriples:
    types: dict[str, str] = {}
    for one in found:
        types |= one.types
    rejects = pl.concat([pl.DataFrame(schema=REJECT_SCHEMA), *(one.rejects for one in found)])
    return SourceTriples(pl.concat([one.triples for one in found]), rejects, types)
