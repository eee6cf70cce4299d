"""Settings of static word vectors: sections of the stages that make and describe them."""

from __future__ import annotations

from pydantic import Field

from flows.recipes.data import Recipe
from tasks.embed.cooccurrences import CooccurrencesParams
from tasks.embed.dictionary import NameDictionaryParams
from tasks.embed.glove import GloveParams
from tasks.embed.report import ReportVectorsParams
from tasks.embed.word2vec import Word2VecParams
from tasks.embed.words import EmbeddingCountsParams, EmbeddingWordsParams


class EmbeddingRecipe(Recipe):
    """Parameters of every stage that works on data, and of those that learn vectors from it."""

    name_dictionary: NameDictionaryParams = Field(default_factory=NameDictionaryParams)
    embedding_counts: EmbeddingCountsParams = Field(default_factory=EmbeddingCountsParams)
    embedding_words: EmbeddingWordsParams = Field(default_factory=EmbeddingWordsParams)
    word2vec: Word2VecParams = Field(default_factory=Word2VecParams)
    cooccurrences: CooccurrencesParams = Field(default_factory=CooccurrencesParams)
    glove: GloveParams = Field(default_factory=GloveParams)
    report_vectors: ReportVectorsParams = Field(default_factory=ReportVectorsParams)
