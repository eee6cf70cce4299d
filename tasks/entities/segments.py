"""Segmentation of entities by AutoPhrase's model: EMBERT's "primitive segmentation results" (appendix).

The model is that of the phrases, of the program or of the embedded engine. Each phrase is a segment, and so is each
word outside phrases. Time grows with the characters of the surfaces, memory with the surfaces and the phrases.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from infra.artifacts import Artifact
from tasks.phrases.autophrase import clear_working_folders
from tasks.phrases.labels import Cut
from tasks.phrases.segments import PhraseSegmentsParams, mark_phrases


def primitive_segments(
    surfaces: Sequence[str], cut: Cut, phrases: Artifact, params: PhraseSegmentsParams, scratch: str
) -> dict[str, tuple[str, ...]]:
    """Return the segments of each surface; they join to the surface.

    Args:
        cut: cuts names into words as the text of the phrases was cut.
        scratch: folder below which the program gets a working folder.

    Raises:
        UserError: the phrases are the program's, and the program fails.
    """
    clear_working_folders(scratch)
    lengths = [list(map(len, words)) for words in cut(surfaces)]
    found = mark_phrases(list(zip(surfaces, lengths, strict=True)), phrases, params, scratch).by_text()
    return {each: _segments(each, words, spans) for each, words, spans in zip(surfaces, lengths, found, strict=True)}


def _segments(surface: str, words: Sequence[int], phrases: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    cuts = {0, *accumulate(words)}
    for start, end in phrases:
        cuts.difference_update(range(start + 1, end))
        cuts.update((start, end))
    return tuple(surface[start:end] for start, end in pairwise(sorted(cuts)))
