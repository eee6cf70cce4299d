"""A process that maps knowledge arrays, reads all vectors, and counts its share of their memory.

Argument: the folder. It prints `read` when all is in memory, waits for a line, then prints the counts as JSON; it ends
when its standard input does.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from models.knowledge import KnowledgeArrays


def counts(file: Path) -> dict[str, int]:
    """Return the kernel's counts of this process's mappings of a file, in KiB."""
    found = {"rss_kib": 0, "pss_kib": 0, "private_kib": 0}
    fields = {"Rss:": "rss_kib", "Pss:": "pss_kib", "Private_Clean:": "private_kib", "Private_Dirty:": "private_kib"}
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        # A mapping begins as `7f00-7f80 r--s 0000 08:01 12 /folder/entity_vectors.npy`; its counts are `Pss: 12 kB`.
        name, *values = line.split()
        if not name.endswith(":"):
            inside = line.endswith(str(file))
        elif inside and name in fields:
            found[fields[name]] += int(values[0])
    return found


def main(folder: str) -> None:
    """Read, wait, count, wait."""
    known = KnowledgeArrays.open(folder)
    assert known.entity_vectors.sum() != 0
    print("read", flush=True)
    sys.stdin.readline()
    print(json.dumps(counts(Path(folder).resolve() / "entity_vectors.npy")), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
