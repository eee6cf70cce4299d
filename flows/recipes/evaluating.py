"""Settings of evaluations: sections of the stages that they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flows.recipes.data import Recipe
from flows.recipes.loading import checked, overlaid
from tasks.evaluate.attention.params import AttentionParams
from tasks.evaluate.attention.synonym_sentences import SynonymSentencesParams
from tasks.evaluate.products.query_title import QueryTitleParams
from tasks.evaluate.products.value_params import RankValuesParams
from tasks.evaluate.similarity.params import SimilarityScoresParams, SimilaritySetsParams
from tasks.pretrain.product_records import ProductRecordsParams


class IntrinsicRecipe(Recipe):
    """Parameters of every stage that works on data, and of those that look into an encoder."""

    synonym_sentences: SynonymSentencesParams = Field(default_factory=SynonymSentencesParams)
    attention: AttentionParams = Field(default_factory=AttentionParams)
    similarity_sets: SimilaritySetsParams = Field(default_factory=SimilaritySetsParams)
    similarity_scores: SimilarityScoresParams = Field(default_factory=SimilarityScoresParams)


class ProductEvaluation(BaseModel):
    """Parameters of every stage of the evaluation on products."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    product_records: ProductRecordsParams = Field(default_factory=ProductRecordsParams)
    other: ProductRecordsParams | None = None
    rank_values: RankValuesParams = Field(default_factory=RankValuesParams)
    query_title: QueryTitleParams = Field(default_factory=QueryTitleParams)


def load_product_evaluation(
    other: Mapping[str, Any] | None = None, overrides: Mapping[str, Any] | None = None
) -> ProductEvaluation:
    """Return the parameters.

    Args:
        other: parameters of `product_records` for a second table of products.
        overrides: dotted keys to values, such as `{"rank_values.pairs": 500}`.

    Raises:
        UserError: unknown keys or unusable values.
    """
    given = {} if other is None else {"other": dict(other)}
    return checked(ProductEvaluation, overlaid(given, "the flow's parameters", overrides))
