"""Settings of the flow `normalise`: sections for the term list, its index, and the normaliser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flows.recipes.loading import checked, overlaid
from tasks.normalise.index import CandidateIndexParams
from tasks.normalise.meaning.params import NameEncoderParams, NameVectorsParams, SynonymPairsParams
from tasks.normalise.params import NormaliserParams, TermMappingParams
from tasks.normalise.terms.terminology import TerminologyParams


class NormaliseRecipe(BaseModel):
    """Parameters of every stage of the flow; `overrides` are its dotted keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    terminology: TerminologyParams = Field(default_factory=TerminologyParams)
    vectors: NameVectorsParams = Field(default_factory=NameVectorsParams)
    index: CandidateIndexParams = Field(default_factory=CandidateIndexParams)
    normaliser: NormaliserParams = Field(default_factory=NormaliserParams)

    def ranking(self, alias: str) -> NormaliserParams:
        """Return the normaliser's parameters, with the server's alias only if it is searched there.

        An alias that changes nothing must not make the training another one.
        """
        own = self.normaliser
        return own.model_copy(update={"alias": alias}) if own.engine == "elasticsearch" else own


class MappingRecipe(BaseModel):
    """Parameters of every stage of the deployment map; `overrides` are its dotted keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: TerminologyParams = Field(default_factory=TerminologyParams)
    target: TerminologyParams = Field(default_factory=TerminologyParams)
    index: CandidateIndexParams = Field(default_factory=CandidateIndexParams)
    mapping: TermMappingParams = Field(default_factory=TermMappingParams)


class TermEncoderRecipe(BaseModel):
    """Parameters of every stage of the deployment encoder; `overrides` are its dotted keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    terminology: TerminologyParams = Field(default_factory=TerminologyParams)
    pairs: SynonymPairsParams = Field(default_factory=SynonymPairsParams)
    encoder: NameEncoderParams = Field(default_factory=NameEncoderParams)


def load_term_encoder(overrides: Mapping[str, Any] | None = None, *, own_list: bool = False) -> TermEncoderRecipe:
    """Return the settings of an encoder of names with overrides applied; `own_list` as in `load_normalising`.

    Raises:
        UserError: unknown keys or unusable values.
    """
    given = {"terminology": {"format": "list"}} if own_list else {}
    return checked(TermEncoderRecipe, overlaid(given, "the flow's parameters", overrides))


def load_mapping(overrides: Mapping[str, Any], *, source: str | None, target: str | None) -> MappingRecipe:
    """Return the settings of a mapping between two lists with overrides applied; None is ICD-10 of its package.

    Raises:
        UserError: unknown keys or unusable values.
    """
    lists = {"source": source, "target": target}
    given = {name: {"format": "list"} for name, path in lists.items() if path is not None}
    return checked(MappingRecipe, overlaid(given, "the flow's parameters", overrides))


def load_normalising(overrides: Mapping[str, Any] | None = None, *, own_list: bool = False) -> NormaliseRecipe:
    """Return the settings with overrides applied.

    Args:
        overrides: dotted keys to values, such as `{"normaliser.epochs": 8}`.
        own_list: the terms are the user's table of codes and names, not ICD-10 as its package brings it.

    Raises:
        UserError: unknown keys or unusable values.
    """
    given = {"terminology": {"format": "list"}} if own_list else {}
    return checked(NormaliseRecipe, overlaid(given, "the flow's parameters", overrides))
