"""Stage `segment`: documents cut into segments of whole sentences, with their words."""

from tasks.segment.stage import SegmentParams, segment, split_document
from tasks.segment.words import segment_words

__all__ = ["SegmentParams", "segment", "segment_words", "split_document"]
