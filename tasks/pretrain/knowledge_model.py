"""The second form of an export: the encoder with its infusion, and the names by which it finds entities in texts.

It is the folder `knowledge_model` beside the plain encoder: config.json and model.safetensors, the tokeniser's files,
names.parquet and a card. The knowledge arrays are not copied; config.json names them, and the model finds them as
models/knowledge_model/source.py says.
Names and how they are linked are those of the examples that the model was trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.artifacts import Artifact, ArtifactStore, local_folder
from infra.errors import UserError
from models.knowledge import KnowledgeArrays
from models.knowledge_model.source import KnowledgeSource
from tasks.knowledge.names import names_table, save_names
from tasks.pretrain.encode import EncodeParams
from tasks.pretrain.linked import linked_entities

KNOWLEDGE = "knowledge"
"""Name of the arrays among the inputs of a run."""


def write_knowledge_model(folder: Path, objective: Any, examples: Artifact, knowledge: Artifact) -> str:
    """Write everything but the card and the tokeniser's files into a folder, which is created.

    Args:
        examples: artifact of `encode`, whose mentions the model was trained on.
        knowledge: artifact of `knowledge_arrays`.

    Returns:
        The beginning of its card as Markdown: what is in the folder, what it needs, and how to use it elsewhere.

    Raises:
        UserError: the store no longer has the graph that the examples were linked to.
    """
    from models.export import save_knowledge_model  # imports torch, which a finished export need not wait for

    record = linked_entities(examples)
    store = ArtifactStore(examples.store_root)
    graph = None if record is None else store.get(record.stage, record.fingerprint)
    if graph is None:
        raise UserError(
            f"{examples.store_root} no longer has the graph whose entities {examples.path} mentions, and without their "
            "names the model finds none in texts. Run the flow again."
        )
    arrays = KnowledgeArrays.open(local_folder(knowledge))
    source = KnowledgeSource.of(arrays, knowledge.stage, knowledge.fingerprint)
    save_knowledge_model(objective, folder, source)
    params = EncodeParams.model_validate(examples.manifest.params)
    counted = examples.manifest.inputs.get("entity_frequencies")
    frequencies = None if counted is None else store.get(counted.stage, counted.fingerprint)
    names = names_table(graph, params.type_priors, frequencies, params.mention_types)
    save_names(folder, names, source.graph)
    return _described(source, arrays, len(names))


def _described(source: KnowledgeSource, arrays: KnowledgeArrays, names: int) -> str:
    artifact, graph = "/".join(source.artifact), "/".join(source.graph)
    return f"""Encoder with knowledge of {arrays.num_entities:,} entities: that of the folder above, with the knowledge
of each mention's neighbours infused after one of its layers (SMedBERT, section 3.3). Its states differ from the plain
encoder's where a text names an entity that has neighbours, and from there on in all of the text. Without mentions they
are the same.

| file | contents |
|---|---|
| `config.json` | sizes; `knowledge_source`: the graph `{graph}`, the arrays `{artifact}`, a digest of their content |
| `model.safetensors` | encoder and infusion, no heads |
| `tokenizer.json`, `vocab.txt`, `tokenizer_config.json` | the tokeniser, as above |
| `names.parquet` | {names:,} names to find in texts, a row each: see below |

Columns of `names.parquet`: `name`; `entity`, the row of the graph that it means; `surface`, 0 for the entity's name and
i for its i-th alias; `recorded`, false for names whose mentions the model is not told of.

**Needed beside it:** the knowledge arrays `{artifact}`, which all models and processes of a node share. They are looked
for in the folder `knowledge` beside `config.json` (a copy or a link), and in the artifact store around this folder.
Those of another graph or of another training are refused, since the same numbers would mean other entities.

```
python -m flows run finetune/cmedqq --param model=path/to/this/folder --param data=FILES [--param knowledge=ARRAYS]
```

In Python, with the integers that `tasks.knowledge.names.linker_of` finds (longest names first, from left to right):

```python
import models.smedbert  # registers the class
from transformers import AutoModel
model = AutoModel.from_pretrained("path/to/this/folder")  # knowledge="ARRAYS" elsewhere; knowledge=False: without
states = model(input_ids, attention_mask, mentions=[[(first_token, behind_last, entity, surface)]]).last_hidden_state
```"""
