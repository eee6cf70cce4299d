"""Time and memory of fusing two graphs of SMedBERT's size, and agreement of alignment with ICD-10 codes.

    python benchmarks/knowledge/fusion.py --data FOLDER [--scale 1.0] [--output FILE.md]

The graphs are synthetic: as many entities and triples as the two of SMedBERT (section 4.1) have, names drawn from
Chinese characters, a tenth of the tails aliases; the names that both share are spelled in full width in one. They are
read from TSV files, fused and saved in a process of its own. The peer is a plain Python version that does less: it
normalises names and unites triples in a set.

FOLDER contains kg_cmekg and icd10_zh. CMeKG's own ICD-10 codes are removed before fusion, since the pairs that judge it
were made from them; alignment relies on names, aliases and similarity alone. A CMeKG name counts as aligned with the
codes that the ICD-10 graph gives its fused entity.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import cpu_name, publish, table
from kg.graph import KnowledgeGraph

ENTITIES, TRIPLES, RELATIONS, SHARED = (139_572, 152_508), (1_007_818, 3_764_711), (12, 44), 17_917
ALIAS_SHARE = 0.02


def write_graphs(folder: Path, scale: float) -> None:
    """Two TSV files; tails are drawn with a long tail of degrees."""
    drawn = np.random.default_rng(7)
    counts = [int(count * scale) for count in ENTITIES]
    letters = drawn.integers(0x4E00, 0x9FA5, (sum(counts), 5)).astype(np.uint32)
    names = np.frombuffer(letters.tobytes(), "<U5").tolist()
    pools = [[f"{name}(II型)" for name in names[: counts[0]]]]
    shared = [f"{name}（Ⅱ 型）" for name in names[: int(SHARED * scale)]]
    pools.append(shared + names[counts[0] : counts[0] + counts[1] - len(shared)])
    for number, pool in enumerate(pools):
        size = int(TRIPLES[number] * scale)
        tails = np.minimum((drawn.pareto(0.8, size) * len(pool) / 200).astype(np.int64), len(pool) - 1)
        frame = pl.DataFrame(
            {
                "head": pl.Series(pool).gather(drawn.integers(0, len(pool), size)),
                "relation": pl.Series([f"关系{place}" for place in range(RELATIONS[number])]).gather(
                    drawn.integers(0, RELATIONS[number], size)
                ),
                "tail": pl.Series(pool).gather(tails),
            }
        )
        named = pl.Series(drawn.random(size) < ALIAS_SHARE)
        frame = frame.with_columns(
            relation=pl.when(named).then(pl.lit("别称")).otherwise("relation"),
            tail=pl.when(named)
            .then(pl.col("tail") + pl.Series(drawn.integers(0, 1 << 30, size)).cast(pl.String))
            .otherwise("tail"),
        )
        frame.write_csv(folder / f"{number}.tsv", separator="\t", quote_style="never")


def measure_ours(folder: Path) -> dict[str, float]:
    """Seconds, CPU seconds and memory of reading, fusing and saving."""
    from kg.fusion.fused_graph import fuse_with_evidence
    from kg.sources.delimited import read

    found: dict[str, float] = {}
    with Stopwatch(found, "read"):
        graphs = [read(folder / f"{number}.tsv").graph(f"graph {number}") for number in range(2)]
    with Stopwatch(found, "fuse"):
        fusion = fuse_with_evidence(graphs)
    with Stopwatch(found, "save"):
        fusion.graph.save(folder)
    with Stopwatch(found, "load"):
        KnowledgeGraph.load(folder)
    return found | _memory() | {"entities": fusion.graph.num_entities, "triples": fusion.graph.num_triples}


def measure_plain(folder: Path) -> dict[str, float]:
    """The same of plain Python: names in one form by unicodedata, equal triples once, no aliases."""
    import unicodedata

    found: dict[str, float] = {}
    triples: dict[tuple[str, str, str], set[int]] = {}

    def plain(name: str) -> str:
        return unicodedata.normalize("NFKC", name).lower().replace(" ", "")

    with Stopwatch(found, "fuse"):
        for number in range(2):
            with (folder / f"{number}.tsv").open(encoding="utf-8") as lines:
                next(lines)
                for line in lines:
                    head, relation, tail = line.rstrip("\n").split("\t")
                    triples.setdefault((plain(head), relation, plain(tail)), set()).add(number)
    return found | _memory() | {"triples": len(triples)}


class Stopwatch:
    """Notes wall and CPU seconds of a block."""

    def __init__(self, found: dict[str, float], name: str) -> None:
        self.found, self.name = found, name

    def __enter__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self.found[self.name] = time.perf_counter() - self.wall
        self.found[f"{self.name}_cpu"] = time.process_time() - self.cpu


def _memory() -> dict[str, float]:
    return {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def costs(scale: float) -> list[str]:
    """The part of the page on time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        write_graphs(Path(folder), scale)
        found = {}
        for tool in ("ours", "plain"):
            command = [sys.executable, __file__, "--measure", tool, "--data", folder]
            found[tool] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    ours, plain = found["ours"], found["plain"]
    steps = ("read", "fuse", "save", "load")
    rows = [[step, f"{ours[step]:.1f}", f"{ours[f'{step}_cpu']:.1f}"] for step in steps]
    rows.append(["all of them", f"{sum(ours[s] for s in steps):.1f}", f"{sum(ours[f'{s}_cpu'] for s in steps):.1f}"])
    rows.append(["plain Python: read and unite only", f"{plain['fuse']:.1f}", f"{plain['fuse_cpu']:.1f}"])
    ratio = plain["fuse_cpu"] / (ours["read_cpu"] + ours["fuse_cpu"])
    return [
        "## Cost",
        "",
        f"{' + '.join(f'{int(count * scale):,}' for count in TRIPLES)} triples in TSV; fused: {ours['entities']:,} "
        f"entities, {ours['triples']:,} triples. Peak memory {ours['memory']:.2f} GB (plain Python "
        f"{plain['memory']:.2f}). Plain Python takes {ratio:.2f} times the CPU seconds of reading and fusing, and "
        "aligns no aliases, codes, types or relations.",
        "",
        *table(["step", "wall s", "CPU s"], rows),
        "",
    ]


def alignment(folder: Path, with_similarity: bool) -> list[str]:
    """The part of the page on precision and recall against code-based pairs."""
    from kg.fusion.alignment import AlignmentOptions
    from kg.fusion.fused_graph import fuse_with_evidence
    from kg.sources.icd10 import unspecified_aliases

    pairs = pl.read_parquet(folder / "icd10_zh" / "cmekg_icd_alignment.parquet")
    triples = pl.read_parquet(folder / "kg_cmekg" / "triples.parquet")
    cmekg = KnowledgeGraph.from_frame(triples.filter(pl.col("relation") != "ICD10"), source="cmekg")
    codes = pl.read_parquet(folder / "icd10_zh" / "kg_icd_triples.parquet")
    plain = KnowledgeGraph.from_frame(codes, source="icd10")
    unspecified = unspecified_aliases(set(codes.filter(pl.col("relation") == "has_code")["head"]))
    aliased = KnowledgeGraph.from_frame(codes, source="icd10", aliases=unspecified)
    given = pairs.height
    pairs = pairs.filter(
        pl.col("cmekg_name").is_in(cmekg.names)
        & pl.col("icd_code").is_in(codes.filter(pl.col("relation") == "has_code")["tail"].implode())
    )
    runs = [
        ("names", plain, AlignmentOptions(aliases=False, codes=False)),
        ("names, aliases (Chinese, English)", plain, AlignmentOptions(codes=False)),
        ("the same, 未特指的X is X", aliased, AlignmentOptions(codes=False)),
    ]
    if with_similarity:
        runs += [
            (f"the same, similarity from {score}", aliased, AlignmentOptions(codes=False, similarity=score))
            for score in (0.9, 0.7)
        ]
    rows = []
    for name, icd10, options in runs:
        started = time.process_time()
        fusion = fuse_with_evidence([cmekg, icd10], options)
        seconds = time.process_time() - started
        evidence = Counter(fusion.alignments["evidence"].to_pylist())
        rows.append(
            [
                name,
                *judged(fusion.graph, pairs),
                f"{seconds:.1f}",
                ", ".join(f"{k} {v:,}" for k, v in sorted(evidence.items())),
            ]
        )
    head = [
        "evidence",
        "pairs found",
        "right",
        "precision",
        "precision, category",
        "recall",
        "recall of equal names",
        "CPU s",
        "links in all",
    ]
    return [
        "## Alignment of CMeKG with ICD-10",
        "",
        f"{pairs.height:,} pairs of a CMeKG name and a code ({pairs['exact_name'].sum():,} with equal names), made "
        f"from CMeKG's codes: those of the {given:,} whose name and code are both in the graphs that are shared "
        f"({cmekg.num_entities:,} and {plain.num_entities:,} entities). Right: the pair is among them. "
        "Category: the first three characters of the codes agree, since CMeKG often has the code of a category where "
        "ICD-10 has the name at the subcategory, or the other way round. Many pairs are no synonyms but a special case "
        "and the residual code it is filed under, which no name can show: recall is bounded by that.",
        "",
        *table(head, rows),
        "",
    ]


def judged(graph: KnowledgeGraph, pairs: pl.DataFrame) -> list[str]:
    """Figures of one run against the pairs."""
    entities: dict[str, int] = {}
    for index, name in enumerate(graph.names):
        for surface in (name, *graph.aliases[index]):
            entities.setdefault(surface, index)
    code_relation = graph.relation_names.index("ICD10")
    codes: dict[int, set[str]] = {}
    coded = graph.relations == code_relation
    for head, tail in zip(graph.heads[coded], graph.tails[coded], strict=True):
        codes.setdefault(int(head), set()).add(graph.names[tail])
    wanted = set(pairs.select("cmekg_name", "icd_code").iter_rows())
    equal = set(pairs.filter("exact_name").select("cmekg_name", "icd_code").iter_rows())
    found = {(name, code) for name in set(pairs["cmekg_name"]) for code in codes.get(entities.get(name, -1), ())}
    categories = {(name, code[:3]) for name, code in wanted}
    right = found & wanted
    near = sum((name, code[:3]) in categories for name, code in found)
    return [
        f"{len(found):,}",
        f"{len(right):,}",
        f"{len(right) / len(found):.3f}",
        f"{near / len(found):.3f}",
        f"{len(right) / len(wanted):.3f}",
        f"{len(found & equal) / len(equal):.3f}",
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with kg_cmekg and icd10_zh")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the synthetic graphs")
    parser.add_argument("--no-similarity", action="store_true", help="leave out the runs with similar names")
    parser.add_argument("--measure", choices=["ours", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps({"ours": measure_ours, "plain": measure_plain}[options.measure](options.data)))
        return
    page = [
        f"# Fusion, {date.today()}",
        "",
        f"Python {platform.python_version()}, {cpu_name()}; the machine was shared: compare CPU seconds.",
        "",
        *costs(options.scale),
        *alignment(options.data, not options.no_similarity),
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
