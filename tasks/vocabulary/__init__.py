"""Stages `count_words`, `vocabulary` and `adopt_vocabulary`: WordPiece vocabularies."""

from tasks.vocabulary.stages import VocabularyParams, build_vocabulary, vocabulary

__all__ = ["VocabularyParams", "build_vocabulary", "vocabulary"]
