"""Names of a graph as a user dictionary."""

from __future__ import annotations

from infra.artifacts import ArtifactStore
from tasks.embed.dictionary import DICTIONARY, NameDictionaryParams, name_dictionary
from tests.support.graphs.given_knowledge import GivenParams, graph_of
from tests.support.text.stages import do


def test_names_and_aliases_that_are_one_word_are_terms(store: ArtifactStore) -> None:
    rows = [
        ("甲巯咪唑", ["他巴唑", "MMI", "他巴唑 片", " 塔帕唑", "赛治"]),
        ("肝", ["MMI", "很长很长的名称"]),
    ]
    entities = [{"entity_id": n, "name": n, "aliases": a, "type": "", "sources": []} for n, a in rows]
    graph = do(store, graph_of, GivenParams(rows={"kg_entities": entities, "kg_triples": []}))
    made = do(store, name_dictionary, NameDictionaryParams(max_length=6), kg_entities=graph)
    assert made.read_file(DICTIONARY).decode().splitlines() == ["MMI", "他巴唑", "甲巯咪唑", "赛治"]
    assert made.manifest.counters == {"names_in": 8, "names_kept": 4}
