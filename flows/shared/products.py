"""Products of a run: the table that a preset names, or CMeKG's drugs, read into records."""

from __future__ import annotations

from infra.artifacts import Artifact
from infra.stage import StageInput
from kg.sources import cmekg
from tasks.files.raw_input import RawInput
from tasks.pretrain.product_records import ProductRecordsParams, product_records, table_columns
from tasks.runner import StageRunner


def product_source(params: ProductRecordsParams) -> StageInput:
    """Look for the products that `params` name, before any work is done.

    Raises:
        UserError: a file is not there, or a database cannot be read.
    """
    if params.source is None:
        return RawInput(cmekg.locate())
    if isinstance(params.source, str) and "://" in params.source:
        from tasks.files.database import DatabaseTable  # imports SQLAlchemy

        table = DatabaseTable(params.source, params.table, table_columns(params))
        _ = table.frame  # a password that is missing must be told now, not after hours of text
        return table
    files = RawInput(params.source)
    files.places()
    return files


def records(run: StageRunner, params: ProductRecordsParams) -> Artifact:
    """Read products into records (title, attribute, values)."""
    return run(product_records, params, source=product_source(params))
