"""The Parquet contracts between stages: one pyarrow schema per table, every column described.

A stage writes tables by their names in `TABLES`; readers compare what is on disk with the schema before use.
Descriptions are for people and may be reworded: only names, order and types decide whether an older artifact fits
(`differences`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def _field(name: str, kind: pa.DataType, description: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


def _list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind, nullable=False))


DOCUMENTS = pa.schema(
    [
        _field("doc_id", pa.string(), "32 hex digits: 128 bits of the SHA-256 of source, title and text"),
        _field("source", pa.string(), "sub-domain: dialogue, article, emr, textbook, encyclopedia, …"),
        _field("title", pa.string(), "title; empty if there is none"),
        _field("text", pa.string(), "text of the document, lines separated by \\n"),
        _field("meta", pa.string(), "JSON object: file, row and any other fields of the input"),
    ]
)

REJECTS = pa.schema(
    [
        _field(
            "doc_id",
            pa.string(),
            "id of the dropped document; file#row if the row never became one, file#first-last for a long run of rows",
        ),
        _field("source", pa.string(), "sub-domain, as in documents"),
        _field("reason", pa.string(), "short name of the rule that dropped it; also a counter of the manifest"),
        _field("detail", pa.string(), "evidence for the rule's decision, for a person to read"),
        _field("excerpt", pa.string(), "first characters of the dropped text"),
    ]
)

FILES = pa.schema(
    [
        _field("file", pa.string(), "path relative to the corpus; a sheet of a workbook is behind its name"),
        _field("rows", pa.int64(), "rows read of this file, or of a range of it"),
        _field("documents", pa.int64(), "rows that became documents"),
        _field(
            "rejected",
            _list_of(
                pa.struct(
                    [pa.field("reason", pa.string(), nullable=False), pa.field("rows", pa.int64(), nullable=False)]
                )
            ),
            "number of the other rows by reason",
        ),
    ]
)

MAX_BANDS = 32
"""Number of band columns in the table `sketches`."""

_KEY = [
    _field("key_high", pa.uint64(), "first half of the 128-bit hash that equal texts share"),
    _field("key_low", pa.uint64(), "its second half"),
]

SKETCHES = pa.schema(
    [
        *_KEY,
        _field("doc_id", pa.string(), "the document; rows are in the order of the part of documents"),
        _field("characters", pa.uint32(), "length of the text in its comparable form"),
        _field("fingerprint", pa.binary(), "similarity sketch, one byte per bin; empty for a short text"),
        *(
            _field(f"band_{band:02d}", pa.uint64(), "hash of a band of the sketch; null if unused", nullable=True)
            for band in range(MAX_BANDS)
        ),
    ]
)

CANDIDATES = pa.schema(
    [
        _field("one_high", pa.uint64(), "key of a text"),
        _field("one_low", pa.uint64(), "its second half"),
        _field("other_high", pa.uint64(), "key of another text that shares a band with it; the larger of the two"),
        _field("other_low", pa.uint64(), "its second half"),
    ]
)

NEAR = pa.schema(
    [
        *_KEY,
        _field("kept_high", pa.uint64(), "key of the text that is kept instead"),
        _field("kept_low", pa.uint64(), "its second half"),
        _field("similarity", pa.float64(), "Jaccard similarity of the two texts' shingles"),
    ]
)

COMPARED = pa.schema(
    [
        _field("cluster_high", pa.uint64(), "first half of a hash over the pairs of a compared cluster"),
        _field("cluster_low", pa.uint64(), "its second half"),
    ]
)

DUPLICATES = pa.schema(
    [
        _field("doc_id", pa.string(), "the dropped document"),
        _field("source", pa.string(), "its sub-domain"),
        _field("kept_id", pa.string(), "the document kept instead"),
        _field("kind", pa.string(), "exact or near"),
        _field(
            "similarity",
            pa.float32(),
            "1.0 for exact duplicates, exact Jaccard similarity of the shingles for near ones",
        ),
    ]
)

CONTAMINATION = pa.schema(
    [
        _field("doc_id", pa.string(), "the document's id before anything was cut out"),
        _field("source", pa.string(), "sub-domain, as in documents"),
        _field("benchmark", pa.string(), "file of the benchmark"),
        _field("row", pa.int64(), "first row of the file with the text, from 1"),
        _field("characters", pa.int64(), "number of letters and digits of the document that overlap with the text"),
        _field("excerpt", pa.string(), "first characters of the longest overlap, as in the document"),
    ]
)

LINE_COUNTS = pa.schema(
    [
        _field(
            "key", pa.uint64(), "hash of the line; the same for lines that differ only in width, case and white space"
        ),
        _field("documents", pa.int64(), "number of documents of the part with the line"),
        _field("first_id", pa.string(), "smallest doc_id among them"),
    ]
)

SEGMENTS = pa.schema(
    [
        _field("segment_id", pa.string(), "doc_id, a dash, and the position"),
        _field("doc_id", pa.string(), "the document it was cut from"),
        _field("source", pa.string(), "sub-domain, as in documents"),
        _field("position", pa.int32(), "0 for the first segment of its document"),
        _field("text", pa.string(), "the segment"),
        _field("words", _list_of(pa.uint16()), "lengths of its words in characters; they sum to len(text)"),
        _field("tokens", pa.int32(), "its length in tokens, without [CLS] and [SEP]"),
    ]
)

LENGTHS = pa.schema(
    [
        _field("counted", pa.string(), "unit of the row: documents or segments"),
        _field("source", pa.string(), "sub-domain, as in documents"),
        _field("bin", pa.int64(), "number of the range of lengths, from 0"),
        _field("rows", pa.int64(), "number of texts of the part in this range"),
        _field("length", pa.int64(), "sum of their lengths: characters of documents, tokens of segments"),
        _field("bytes", pa.int64(), "sum of their bytes in UTF-8"),
    ]
)

WORD_COUNTS = pa.schema(
    [
        _field("word", pa.string(), "word after normalisation: a run of letters or a single other character"),
        _field("count", pa.int64(), "occurrences in the part's share of the sample"),
    ]
)

VOCABULARY = pa.schema(
    [
        _field("id", pa.int32(), "token id"),
        _field("token", pa.string(), "token; ## marks a piece inside a word"),
        _field(
            "frequency", pa.int64(), "occurrences in the sample; 0 for special tokens and for an adopted vocabulary"
        ),
    ]
)

EMBEDDING_COUNTS = pa.schema(
    [
        _field("word", pa.string(), "word or character of the text; never white space"),
        _field("count", pa.int64(), "occurrences in the part"),
    ]
)

WORD_VECTORS = pa.schema(
    [
        _field("word", pa.string(), "word or character; its vector is the same row of vectors.npy beside the table"),
        _field("frequency", pa.int64(), "occurrences in the corpus; 0 if unknown"),
    ]
)

WORD_SEQUENCES = pa.schema(
    [_field("rows", _list_of(pa.uint32()), "rows of embedding_words: the frequent words of one segment, in its order")]
)

COOCCURRENCES = pa.schema(
    [
        _field("row", pa.uint32(), "row of a word in embedding_words"),
        _field("column", pa.uint32(), "row of a word near it; not smaller than `row`, since both directions are equal"),
        _field("count", pa.float32(), "sum of 1 / distance over the pairs of their occurrences, in both directions"),
    ]
)

VECTOR_SCORES = pa.schema(
    [
        _field("vectors", pa.string(), "name of the vectors"),
        _field("measure", pa.string(), "what is measured, as the page describes it"),
        _field("pairs", pa.int64(), "pairs that were compared, each with a random one"),
        _field("score", pa.float64(), "share of pairs that are nearer than the random one; half for a tie"),
        _field("low", pa.float64(), "lower end of its 95 % interval"),
        _field("high", pa.float64(), "upper end"),
    ]
)

EXAMPLES = pa.schema(
    [
        _field("input_ids", _list_of(pa.uint32()), "token ids, [CLS] first and [SEP] last"),
        _field("word_starts", _list_of(pa.uint16()), "positions at which maskable words begin; [CLS] is 0"),
        _field(
            "mentions",
            _list_of(
                pa.struct(
                    [
                        _field("start", pa.uint16(), "first token of the mention"),
                        _field("end", pa.uint16(), "token after its last"),
                        _field("entity", pa.uint32(), "row of the linked table of entities, counted from 0"),
                        _field("surface", pa.uint16(), "which of the row's names: 0 the first, i the i-th alias"),
                    ]
                )
            ),
            "entity mentions; the table is that of the manifest's input `entities`: kg_entities, or entities, where a "
            "row has one name. Empty if no entities were linked",
        ),
        _field("doc_id", pa.string(), "the document it comes from"),
        _field("source", pa.string(), "sub-domain, as in documents"),
    ]
)

PAIRS = pa.schema(
    [
        _field("input_ids", _list_of(pa.uint32()), "token ids: [CLS], first sentence, [SEP], second sentence, [SEP]"),
        EXAMPLES.field("word_starts"),
        EXAMPLES.field("mentions"),
        _field("second", pa.uint16(), "first token of the second sentence"),
        _field("is_random", pa.bool_(), "whether the second sentence comes from another document"),
        _field("doc_id", pa.string(), "the document that the first sentence comes from"),
        EXAMPLES.field("source"),
    ]
)

PRODUCT_RECORDS = pa.schema(
    [
        _field("title", pa.string(), "title of a product"),
        _field("attribute", pa.string(), "name of one of its attributes"),
        _field("values", _list_of(pa.string()), "its values of the attribute, distinct and sorted"),
        _field("held_out", pa.bool_(), "whether the title is held out, with all its attributes"),
    ]
)

PRODUCTS = pa.schema(
    [
        _field("input_ids", _list_of(pa.uint32()), "[CLS] title [SEP] name of the attribute [SEP]"),
        _field("second", pa.uint16(), "first token of the attribute's name"),
        _field("attribute", pa.uint32(), "number of the attribute in the arrays beside the table"),
        _field("values", _list_of(pa.uint32()), "numbers of its values there, increasing"),
        _field("title", pa.string(), "the title, for people"),
        _field("attribute_name", pa.string(), "the name of the attribute"),
    ]
)

VALUE_RANKS = pa.schema(
    [
        _field("title", pa.string(), "title of a product"),
        _field("attribute", pa.string(), "name of the attribute that is asked for"),
        _field("value", pa.string(), "a right value"),
        _field("wrong", pa.string(), "draw of the wrong candidates: values (equally), or records (by frequency)"),
        _field("candidates", pa.int64(), "the right value and the wrong ones it was ranked among"),
        _field("rank", pa.float64(), "its rank by the model, from 1; of equal distances half are ahead"),
        _field("popularity_rank", pa.float64(), "its rank by the number of training titles that have the value"),
        _field("is_seen", pa.bool_(), "whether a training title has the value for this attribute"),
        _field("is_known_title", pa.bool_(), "whether the title is one of those trained on"),
    ]
)

SYNONYM_OCCURRENCES = pa.schema(
    [
        _field("segment_id", pa.string(), "the segment that the sentence is from"),
        _field("sentence", pa.string(), "a sentence with an entity that has a synonym"),
        _field("start", pa.uint32(), "first character of the entity in the sentence"),
        _field("end", pa.uint32(), "character after its last"),
        _field("group_id", pa.string(), "group of the entity's synonyms, as in synonyms"),
        _field("draw", pa.float64(), "random number in [0, 1); the smallest of a group are taken"),
    ]
)

SYNONYM_SENTENCES = pa.schema(
    [
        *SYNONYM_OCCURRENCES,
        _field("type", pa.string(), "type of the entity; empty if unknown"),
        _field("entity", pa.string(), "the entity, as the sentence has it"),
        _field("synonym", pa.string(), "another name of it"),
        _field("random", pa.string(), "a random entity of the type, about as long as the synonym"),
    ]
)

ATTENTION_SIMILARITIES = pa.schema(
    [
        *(SYNONYM_SENTENCES.field(name) for name in ("sentence", "start", "end", "group_id", "type")),
        *(SYNONYM_SENTENCES.field(name) for name in ("entity", "synonym", "random")),
        _field("context", pa.int64(), "number of tokens that are compared: all but those of the entity"),
        _field(
            "received_synonym",
            pa.float64(),
            "cosine of the attention that the context pays to the entity and to the synonym in its place",
        ),
        _field("received_random", pa.float64(), "the same for the random entity"),
        _field(
            "given_synonym",
            pa.float64(),
            "cosine of the attention that the entity, and the synonym in its place, pay to the context",
        ),
        _field("given_random", pa.float64(), "the same for the random entity"),
        _field("within", pa.float64(), "share of the entity's attention that stays within the entity"),
        _field("within_chance", pa.float64(), "the entity's share of the tokens: what even attention would give"),
        _field("shares_characters", pa.bool_(), "whether the synonym has a character of the entity"),
        _field("unseen", pa.bool_(), "whether training named none of the group; null if unknown", nullable=True),
    ]
)

SIMILARITY_PAIRS = pa.schema(
    [
        _field("entity_id", pa.string(), "entity of the fused graph that has both names"),
        _field("name", pa.string(), "its name"),
        _field("alias", pa.string(), "one of its aliases, which differs from the name in comparable form"),
        _field("type", pa.string(), "its type; empty if unknown"),
        _field("common", pa.int64(), "number of neighbours that both names have in the sources before fusion"),
        _field("jaccard", pa.float64(), "these as a share of the neighbours that one of them has; 0 without any"),
    ]
)

NAME_FREQUENCIES = pa.schema(
    [
        _field("form", pa.string(), "surface form of names of entities (kg/linking/surface_forms.py)"),
        _field("count", pa.int64(), "number of its mentions in one part of the segments"),
    ]
)

SIMILARITY_SAMPLES = pa.schema(
    [
        *(SIMILARITY_PAIRS.field(name) for name in ("entity_id", "type")),
        _field("query", pa.string(), "the name that is asked about"),
        _field("truth", pa.string(), "the other name of the pair"),
        _field("negatives", _list_of(pa.string()), "19 names of entities of the type that resemble the right one"),
        _field("is_close", pa.bool_(), "whether both names have most neighbours in common: sample of D2"),
        _field("is_rare", pa.bool_(), "whether one of both names is a rare mention: sample of D3"),
    ]
)

SIMILARITY_ANSWERS = pa.schema(
    [
        *(SIMILARITY_SAMPLES.field(name) for name in ("entity_id", "query", "truth", "is_close", "is_rare")),
        _field("chosen", pa.string(), "the most similar candidate; the first in order of name if several are"),
        _field("credit", pa.float64(), "1 if the right one is most similar, 1/n if n are equally so, else 0"),
        _field(
            "is_joined",
            pa.bool_(),
            "whether a graph that the model learnt from joins the pair's names; null if its training is unknown",
            nullable=True,
        ),
    ]
)

ENTITY_SURFACES = pa.schema(
    [
        _field("surface", pa.string(), "a surface of the entity vocabulary; entity_examples call it by its row"),
        _field("group_id", pa.string(), "its group of synonyms; null if it has none or several", nullable=True),
        _field("replaceable", pa.bool_(), "whether it may replace others and be replaced"),
        _field("unseen", pa.bool_(), "whether it is kept for evaluation"),
        _field("pieces", pa.uint16(), "number of its sub-entities, as far as they end with a token"),
    ]
)

ENTITY_EXAMPLES = pa.schema(
    [
        *(PAIRS.field(name) for name in ("input_ids", "word_starts", "second", "doc_id", "source")),
        _field(
            "entities",
            _list_of(
                pa.struct(
                    [
                        _field("start", pa.uint16(), "first token of the entity"),
                        _field("end", pa.uint16(), "token after its last"),
                        _field("surface", pa.uint32(), "row of its surface in the table entity_surfaces"),
                    ]
                )
            ),
            "entities, in order and without overlap",
        ),
    ]
)

KG_ENTITY_VECTORS = pa.schema(
    [
        _field("entity_id", pa.string(), "as in kg_entities, in ascending order"),
        _field("vector", _list_of(pa.float32()), "its TransR vector; all have the same length"),
    ]
)

KG_RELATION_VECTORS = pa.schema(
    [
        _field("relation", pa.string(), "name of the relation, in ascending order"),
        _field("vector", _list_of(pa.float32()), "its vector in the relation's space"),
        _field("projection", _list_of(pa.float32()), "M_r row by row: entity width × relation width"),
    ]
)

METRICS = pa.schema(
    [
        _field("step", pa.int64(), "number of training steps taken when the figure was read"),
        _field(
            "split",
            pa.string(),
            "step (a single training step), train (mean of the steps since the last such row; for learning_rate and "
            "skipped_steps the newest value), held_out, or skipped (a training step that was not taken)",
        ),
        _field("name", pa.string(), "name of the figure, such as mlm, rtd, mts_accuracy"),
        _field("value", pa.float64(), "its value"),
    ]
)

MENTIONS = pa.schema(
    [
        _field("segment_id", pa.string(), "the segment, or the document where documents were linked"),
        _field("start", pa.uint32(), "first character of the mention"),
        _field("end", pa.uint32(), "character after its last"),
        _field("entity_id", pa.string(), "the entity"),
    ]
)

ENTITY_FREQUENCIES = pa.schema(
    [
        _field("entity_id", pa.string(), "an entity that occurs"),
        _field("count", pa.int64(), "number of its mentions, under any of its names"),
        _field("documents", pa.int64(), "number of documents that mention it"),
    ]
)

ENTITY_COUNTS = pa.schema(
    [
        _field("surface", pa.string(), "a surface of the entity vocabulary"),
        _field("count", pa.int64(), "its occurrences in one part of the segments, including overlapping ones"),
    ]
)

ENTITIES = pa.schema(
    [
        _field("entity_id", pa.string(), "id in kg_entities; `phrase:` and the surface if it is only a phrase"),
        _field(
            "surface",
            pa.string(),
            "name, alias or phrase; one row for each of an entity's surfaces, and for each homonym",
        ),
        _field("type", pa.string(), "type in the knowledge graph, or empty"),
        _field("origin", pa.string(), "kg, phrase or both"),
        _field(
            "quality", pa.float64(), "AutoPhrase's quality of the surface; null if it is not a phrase", nullable=True
        ),
        _field(
            "frequency", pa.int64(), "occurrences of the surface in the corpus, including those inside other surfaces"
        ),
        _field("is_long", pa.bool_(), "whether it has parts"),
        _field("pieces", _list_of(pa.string()), "its parts, which join to the surface; the surface itself if short"),
        _field("atomic", pa.string(), "the term at its core: the last piece"),
        _field("adjective", pa.string(), "the pieces before it, merged; empty if short"),
    ]
)

SYNONYMS = pa.schema(
    [
        _field("group_id", pa.string(), "the smallest entity_id of the group"),
        _field("entity_id", pa.string(), "the entity with this surface; the smallest id if there are several"),
        _field("surface", pa.string(), "name or alias; surfaces of one group mean the same"),
        _field("type", pa.string(), "type of all entities of the group"),
        _field("ambiguous", pa.bool_(), "whether it may also mean something else"),
    ]
)

KG_ENTITIES = pa.schema(
    [
        _field("entity_id", pa.string(), "its id; in a graph that was not fused, the name itself"),
        _field("name", pa.string(), "its preferred name"),
        _field("aliases", _list_of(pa.string()), "its other names, sorted"),
        _field("type", pa.string(), "its type; empty if unknown"),
        _field("sources", _list_of(pa.string()), "the sources that contain it, sorted"),
    ]
)

NAMES = pa.schema(
    [
        _field("name", pa.string(), "a name that is searched for; no two have the same surface form"),
        _field("entity", pa.uint32(), "row in kg_entities of the entity that it is linked to"),
        _field("surface", pa.uint16(), "which of the entity's names it is: 0 the name, i the i-th alias"),
        _field("recorded", pa.bool_(), "whether a mention by it is given to the model; others only occupy their text"),
    ]
)
"""The file names.parquet beside a model (tasks/knowledge/names.py), not a table of a stage."""

KG_TRIPLES = pa.schema(
    [
        _field("head", pa.string(), "entity_id of the head"),
        _field("relation", pa.string(), "name of the relation"),
        _field("tail", pa.string(), "entity_id of the tail"),
        _field("sources", _list_of(pa.string()), "the sources that state it, sorted"),
    ]
)

KG_HELD_OUT_TRIPLES = pa.schema(
    [
        _field("head", pa.string(), "entity_id of the head of a triple that the vectors did not learn from"),
        _field("relation", pa.string(), "name of its relation"),
        _field("tail", pa.string(), "entity_id of its tail"),
    ]
)

KG_ALIGNMENTS = pa.schema(
    [
        _field("entity_id", pa.string(), "the fused entity"),
        _field("name", pa.string(), "one of the two aligned names"),
        _field("other_name", pa.string(), "the other; the same name where several graphs have an entity of this name"),
        _field("evidence", pa.string(), "name, alias, code or similarity"),
        _field("value", pa.string(), "the name, alias or code that they share, in comparable form; else empty"),
        _field("score", pa.float64(), "similarity score; 1.0 for other evidence"),
    ]
)

KG_CONFLICTS = pa.schema(
    [
        _field("entity_id", pa.string(), "the fused entity"),
        _field("kind", pa.string(), "type, or value of a relation that should have one tail"),
        _field("relation", pa.string(), "the relation; empty for a type"),
        _field("value", pa.string(), "the type, or the name of the tail; one row for each value stated"),
        _field("sources", _list_of(pa.string()), "the sources that state it, sorted"),
    ]
)

NEIGHBOURS = pa.schema(
    [
        _field("entity_id", pa.string(), "the mention's entity"),
        _field("rank", pa.int32(), "1 for the neighbour with the highest score; equal scores by neighbour_id"),
        _field("neighbour_id", pa.string(), "entity_id of the neighbour"),
        _field(
            "relation",
            pa.string(),
            "relation of the first triple between them: outgoing before incoming, then the relation with more triples "
            "in the graph, then by name",
        ),
        _field("direction", pa.int8(), "1 where the entity is the head of that triple, -1 where it is its tail"),
        _field("score", pa.float64(), "converged PEPR score of the neighbour for this entity's jump vector"),
        _field(
            "others",
            _list_of(
                pa.struct(
                    [
                        _field("relation", pa.string(), "its relation"),
                        _field("direction", pa.int8(), "as for the first triple"),
                    ]
                )
            ),
            "the other triples between the two, in the same order; mostly none",
        ),
    ]
)

PHRASES = pa.schema(
    [
        _field("surface", pa.string(), "the phrase: its words joined, with a space between two of Latin letters"),
        _field("words", _list_of(pa.string()), "its words, as the text was cut"),
        _field("quality", pa.float64(), "estimated probability that it is a good phrase, 0 to 1"),
        _field("frequency", pa.int64(), "occurrences in the text it was mined from, as a run of whole words"),
        _field("labelled_by", pa.string(), "source that labels it as a good phrase: kg, wiki or none"),
    ]
)

PHRASE_CANDIDATES = pa.schema(
    [
        _field("words", _list_of(pa.int32()), "numbers of its words; words are numbered in order of first occurrence"),
        _field("count", pa.int64(), "occurrences, as a run of whole words"),
        _field("segments", pa.int64(), "number of segments that contain it"),
        _field(
            "left_entropy", pa.float64(), "entropy of the words before it, in nats; all punctuation counts as one word"
        ),
        _field(
            "right_entropy", pa.float64(), "entropy of the words after it, in nats; all punctuation counts as one word"
        ),
        _field("at_start", pa.float64(), "share of its occurrences that begin a sentence"),
        _field("at_end", pa.float64(), "share of its occurrences that end a sentence"),
        _field("place", pa.float64(), "mean share of the segment before it"),
    ]
)

PHRASE_VOTES = pa.schema(
    [
        _field("candidate", pa.int64(), "number of a candidate among all that are judged together"),
        _field("for_it", pa.int64(), "number of trees of a group that vote for it"),
        _field("for_it_unseen", pa.int64(), "number of these that were not grown on it"),
        _field("unseen", pa.int64(), "number of trees of a group that were not grown on it"),
    ]
)

PHRASE_SEGMENTS = pa.schema(
    [
        _field("segment_id", pa.string(), "the segment; rows are in the order of the part of segments"),
        _field(
            "phrases",
            _list_of(
                pa.struct(
                    [
                        _field("start", pa.uint32(), "first character of the phrase in the segment's text"),
                        _field("end", pa.uint32(), "character after its last"),
                    ]
                )
            ),
            "good phrases of the segment, in order and without overlap",
        ),
    ]
)

DISTRUSTED_NAMES = pa.schema(
    [
        _field("code", pa.string(), "code that a source gives the name to"),
        _field("term", pa.string(), "the standard term of the code"),
        _field("name", pa.string(), "the name, under which the code is not found"),
        _field("source", pa.string(), "graph or text"),
        _field("trust", pa.float64(), "trust in the name, from 0 to below the least that was asked for"),
        _field("reasons", pa.string(), "reasons to doubt it, joined by ;"),
    ]
)

TERMS = pa.schema(
    [
        _field("code", pa.string(), "code of the standard term; empty for a label that is not in the list"),
        _field("term", pa.string(), "the standard term; (code, term) is distinct and sorted"),
        _field("aliases", _list_of(pa.string()), "other names under which it is found, sorted"),
        _field("alias_sources", _list_of(pa.string()), "source of each: list, english, everyday, graph or text"),
        _field("origin", pa.string(), "list; label if only the training data has it"),
    ]
)

TEXT_SYNONYMS = pa.schema(
    [
        _field("name", pa.string(), "name in the text, before the word that announces another name"),
        _field("synonym", pa.string(), "the other name; it is not checked whether either names an entity"),
        _field("source", pa.string(), "sub-domain of the documents that state it"),
        _field("documents", pa.int64(), "number of documents of the part that state it"),
    ]
)

SYNONYM_PAIRS = pa.schema(
    [
        _field("concept", pa.int64(), "number of the concept that both names mean"),
        _field("first", pa.string(), "a name of the concept"),
        _field("second", pa.string(), "another name of it"),
        _field("first_source", pa.string(), "where the first name comes from: term, list, english, graph, text …"),
        _field("second_source", pa.string(), "where the second one does"),
        _field("category", pa.string(), "category of the concept's code, or the type of an entity; may be empty"),
        _field("negatives", _list_of(pa.string()), "names of other concepts in the same category"),
        _field("negative_concepts", _list_of(pa.int64()), "number of the concept of each of them"),
        _field("split", pa.string(), "train; dev if the pair judges a training"),
    ]
)

BENCHMARK_MENTIONS = pa.schema(
    [
        _field("text", pa.string(), "a name of a disease"),
        _field("codes", _list_of(pa.string()), "the codes of the list that it should be normalised to, sorted"),
        _field("split", pa.string(), "train, dev or test"),
        _field("is_query", pa.bool_(), "whether it is searched for; for dev and test it is then in no indexed graph"),
        _field("is_equal", pa.bool_(), "whether it is itself the term of one of the codes"),
    ]
)

BENCHMARK_LEFT_OUT = pa.schema(
    [
        _field("text", pa.string(), "a name of a disease"),
        _field("cell", pa.string(), "its code as written in the graph"),
        _field("reason", pa.string(), "reason for leaving it out, as in tasks/normalise/benchmark.py"),
    ]
)

CANDIDATE_RECALL = pa.schema(
    [
        _field("split", pa.string(), "dev or test"),
        _field("found_by", pa.string(), "characters, meaning, or both: the union of the two"),
        _field("queries", pa.string(), "all, or those that differ from the term of an answer"),
        _field("number", pa.int64(), "number of these queries"),
        _field("k", pa.int64(), "number of candidates considered"),
        _field("recall", pa.float64(), "share of the queries with a right code among these candidates"),
    ]
)

SCORES = pa.schema(
    [
        _field("task", pa.string(), "name of the task in tasks/downstream/catalogue"),
        _field("split", pa.string(), "dev or test"),
        _field("of", pa.string(), "trial; or best run: the predictions of the best trial, with an interval"),
        _field("metric", pa.string(), "name of the metric in tasks/metrics/scores.py"),
        _field("main", pa.bool_(), "whether the best run is chosen by this metric"),
        _field("value", pa.float64(), "the score; a fraction of 1, except for pair_score"),
        _field("low", pa.float64(), "lower end of the 95 % bootstrap interval; null for trials", nullable=True),
        _field("high", pa.float64(), "its upper end", nullable=True),
        _field("best", pa.bool_(), "whether this is the best run: the best seed of the best setting"),
        _field("batch_size", pa.int32(), "setting of the trial; null for the best run's own rows", nullable=True),
        _field("learning_rate", pa.float64(), "setting of the trial", nullable=True),
        _field("epochs", pa.int32(), "setting of the trial", nullable=True),
        _field("seed", pa.int64(), "seed of the trial", nullable=True),
    ]
)

PREDICTIONS = pa.schema(
    [
        _field("task", pa.string(), "name of the task in tasks/downstream/catalogue"),
        _field("split", pa.string(), "dev or test"),
        _field("record_id", pa.string(), "id of the record in its file, or its row number"),
        _field("group", pa.string(), "question shared by the candidates; null if there is none", nullable=True),
        _field("texts", _list_of(pa.string()), "input texts, in the order of the task's kind"),
        _field("answer", pa.string(), "answer of the best run, as JSON"),
        _field("gold", pa.string(), "the right answer, as JSON; null if it is not known", nullable=True),
        _field("correct", pa.bool_(), "whether both are the same; null if that is not known", nullable=True),
        _field("scores", _list_of(pa.float64()), "probability of each label, or score; null for tags", nullable=True),
        _field("value", pa.float64(), "the value to rank by, for metrics that rank; else null", nullable=True),
    ]
)

GOLD_RANKS = pa.schema(
    [
        _field("split", pa.string(), "dev or test"),
        _field("record_id", pa.string(), "of the diagnosis, as in predictions"),
        _field("term", pa.string(), "a right term of the diagnosis"),
        _field("rank", pa.int64(), "its rank among the candidates, from 1; null if absent", nullable=True),
    ]
)

FEW_VALUES = frozenset(
    {
        "source",
        "reason",
        "kind",
        "benchmark",
        "split",
        "name",
        "task",
        "of",
        "metric",
        "attribute",
        "attribute_name",
        "wrong",
    }
)
"""Columns with few distinct values, stored as Parquet dictionaries. For the others, building one only costs time."""

TABLES: Mapping[str, pa.Schema] = {
    "documents": DOCUMENTS,
    "rejects": REJECTS,
    "files": FILES,
    "sketches": SKETCHES,
    "candidates": CANDIDATES,
    "near": NEAR,
    "compared": COMPARED,
    "duplicates": DUPLICATES,
    "contamination": CONTAMINATION,
    "line_counts": LINE_COUNTS,
    "segments": SEGMENTS,
    "lengths": LENGTHS,
    "word_counts": WORD_COUNTS,
    "vocabulary": VOCABULARY,
    "embedding_counts": EMBEDDING_COUNTS,
    "embedding_words": WORD_VECTORS,
    "word_sequences": WORD_SEQUENCES,
    "cooccurrences": COOCCURRENCES,
    "word_vectors": WORD_VECTORS,
    "vector_scores": VECTOR_SCORES,
    "kg_entity_vectors": KG_ENTITY_VECTORS,
    "kg_relation_vectors": KG_RELATION_VECTORS,
    "examples": EXAMPLES,
    "held_out": EXAMPLES,
    "pairs": PAIRS,
    "held_out_pairs": PAIRS,
    "product_records": PRODUCT_RECORDS,
    "products": PRODUCTS,
    "held_out_products": PRODUCTS,
    "value_ranks": VALUE_RANKS,
    "similarity_pairs": SIMILARITY_PAIRS,
    "name_frequencies": NAME_FREQUENCIES,
    "similarity_samples": SIMILARITY_SAMPLES,
    "similarity_answers": SIMILARITY_ANSWERS,
    "synonym_occurrences": SYNONYM_OCCURRENCES,
    "synonym_sentences": SYNONYM_SENTENCES,
    "attention_similarities": ATTENTION_SIMILARITIES,
    "entity_surfaces": ENTITY_SURFACES,
    "entity_examples": ENTITY_EXAMPLES,
    "held_out_entity_examples": ENTITY_EXAMPLES,
    "metrics": METRICS,
    "mentions": MENTIONS,
    "mention_counts": ENTITY_FREQUENCIES,
    "entity_frequencies": ENTITY_FREQUENCIES,
    "entity_counts": ENTITY_COUNTS,
    "entities": ENTITIES,
    "synonyms": SYNONYMS,
    "kg_entities": KG_ENTITIES,
    "kg_triples": KG_TRIPLES,
    "kg_held_out_triples": KG_HELD_OUT_TRIPLES,
    "kg_alignments": KG_ALIGNMENTS,
    "kg_conflicts": KG_CONFLICTS,
    "neighbours": NEIGHBOURS,
    "phrases": PHRASES,
    "phrase_candidates": PHRASE_CANDIDATES,
    "phrase_votes": PHRASE_VOTES,
    "phrase_segments": PHRASE_SEGMENTS,
    "terms": TERMS,
    "distrusted_names": DISTRUSTED_NAMES,
    "text_synonyms": TEXT_SYNONYMS,
    "synonym_pairs": SYNONYM_PAIRS,
    "benchmark_mentions": BENCHMARK_MENTIONS,
    "benchmark_left_out": BENCHMARK_LEFT_OUT,
    "candidate_recall": CANDIDATE_RECALL,
    "scores": SCORES,
    "predictions": PREDICTIONS,
    "gold_ranks": GOLD_RANKS,
}
"""Every table a stage may write, by name."""


def describe(schema: pa.Schema) -> list[dict[str, str]]:
    """Return the schema as a manifest records it: name, type and description of each column."""
    return [
        {
            "name": field.name,
            "type": str(field.type),
            "description": (field.metadata or {}).get(b"description", b"").decode(),
        }
        for field in schema
    ]


def conform(rows: pa.Table | list[dict[str, Any]], table: str) -> pa.Table:
    """Return the rows with exactly the columns and types of a table.

    Raises:
        ValueError, pa.ArrowException: a column is missing or unknown, or a value does not fit its column.
    """
    if table not in TABLES:
        raise ValueError(f"infra/schemas.py has no such table; its tables are {', '.join(TABLES)}")
    schema = TABLES[table]
    if not isinstance(rows, pa.Table):
        surplus = set().union(*rows) - set(schema.names)
        if surplus:
            raise ValueError(f"unknown columns {sorted(surplus)}")
        rows = pa.Table.from_pylist(rows, schema=schema)
    return rows.cast(schema)


def differences(found: pa.Schema, expected: pa.Schema) -> list[str]:
    """Return the differences of `found` from `expected`, one phrase each; empty if names, order and types agree."""
    problems = []
    if found.names != expected.names:
        missing = [name for name in expected.names if name not in found.names]
        surplus = [name for name in found.names if name not in expected.names]
        problems.append(f"columns {found.names} instead of {expected.names} (missing {missing}, unknown {surplus})")
    for field in expected:
        index = found.get_field_index(field.name)
        if index >= 0 and _kind(found.field(index)) != _kind(field):
            problems.append(f"column {field.name!r} is {_kind(found.field(index))} instead of {_kind(field)}")
    return problems


def _kind(field: pa.Field) -> str:
    # Not `field == other`: the text leaves out descriptions, which may be reworded.
    return f"{field.type}" if field.nullable else f"{field.type} not null"
