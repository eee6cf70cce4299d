"""A lineage as a picture: SVG with a box for each artifact, raw files at the left and the artifact at the right."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from flows.cli.stored.ancestry import Ancestor
from flows.cli.stored.summary import contents
from flows.cli.wording.figures import megabytes
from flows.cli.wording.text_table import width

LETTER = 6.6
"""Width of a column of text in pixels, at 12 px in a sans-serif font, with some room."""
LINE, PADDING, GAP_X, GAP_Y = 16, 8, 46, 14
HIGH, PASSAGE = 2 * LINE + 2 * PADDING, 4
"""Heights of a box, and of a line that passes a column."""
STYLE = """
text { font: 12px system-ui, "Noto Sans", "Noto Sans SC", sans-serif; fill: #1c2733 }
.what { fill: #5b6875 }
rect { fill: #eef3f8; stroke: #7d93a8; rx: 5px }
.outside { fill: #f7f1e3; stroke: #b39b5f }
.root { fill: #e0f0e4; stroke: #4f9162; stroke-width: 2px }
path { fill: none; stroke: #9aa8b5 }
svg { background: #ffffff }
@media (prefers-color-scheme: dark) {
  svg { background: #14191f } text { fill: #e5ebf1 } .what { fill: #9fb0c0 }
  rect { fill: #1f2a36; stroke: #5d7287 } .outside { fill: #2e2919; stroke: #8c7842 }
  .root { fill: #1b3323; stroke: #5fa873 } path { stroke: #56636f }
}
"""


Place = tuple[float, float, float, float]
"""Left, top, width and height in pixels."""


def picture(tree: Ancestor) -> str:
    """Return the SVG of a tree. An artifact that is needed several times has one box."""
    nodes = {node.address: node for node in tree.walk()}
    steps = _steps(tree.address, {address: [one.address for one in node.parents] for address, node in nodes.items()})
    boxes = {address: _text(node) for address, node in nodes.items()}
    places, whole = _places(_columns(tree.address, steps), boxes)
    parts = [_edge(places[one], places[address]) for address, own in steps.items() for one in own]
    for address, node in nodes.items():
        kind = "root" if node is tree else "outside" if node.manifest is None else "made"
        parts.append(_box(places[address], boxes[address], kind))
    parts += [_passage(place) for address, place in places.items() if address not in nodes]
    wide, high = whole
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" role="img">\n'
        f"<title>Lineage of {escape(tree.title)}</title>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _steps(root: str, inputs: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the inputs of each artifact with passages in between, so that no line passes behind a box.

    A passage is `address@column`: a line from there to another column goes through it.
    """
    depth = _depths(root, inputs)
    steps: dict[str, list[str]] = {address: [] for address in inputs}
    for address, own in inputs.items():
        for one in own:
            at = address
            for column in range(depth[address] + 1, depth[one]):
                passage = f"{one}@{column}"
                if passage not in steps.setdefault(at, []):
                    steps[at].append(passage)
                steps.setdefault(passage, [])
                at = passage
            if one not in steps[at]:
                steps[at].append(one)
    return steps


def _depths(root: str, inputs: dict[str, list[str]]) -> dict[str, int]:
    """Return the longest distance of each address from the root."""
    depth = {root: 0}
    waiting = [root]
    while waiting:  # inputs form no circle: each artifact's fingerprint covers those of its inputs
        address = waiting.pop()
        for one in inputs.get(address, ()):
            if depth.get(one, -1) < depth[address] + 1:
                depth[one] = depth[address] + 1
                waiting.append(one)
    return depth


def _columns(root: str, steps: dict[str, list[str]]) -> dict[int, list[str]]:
    """Return addresses by their distance from the root, each column in the order of what it leads to."""
    depth = _depths(root, steps)
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for address in steps:
        columns[depth[address]].append(address)
    rank = {root: 0.5}
    for column in sorted(columns)[1:]:
        leads_to = {
            one: [rank[address] for address in columns[column - 1] if one in steps[address]] for one in columns[column]
        }
        columns[column].sort(key=lambda one: sum(leads_to[one]) / len(leads_to[one]))
        members = columns[column]
        rank |= {one: (number + 0.5) / len(members) for number, one in enumerate(members)}
    return dict(columns)


def _places(
    columns: dict[int, list[str]], boxes: dict[str, tuple[str, str]]
) -> tuple[dict[str, Place], tuple[float, float]]:
    """Return the place of every box and passage, and the size of the picture."""
    heights = {one: float(HIGH if one in boxes else PASSAGE) for members in columns.values() for one in members}
    totals = {column: float(sum(heights[one] + GAP_Y for one in members)) for column, members in columns.items()}
    whole = max(totals.values()) + GAP_Y
    places, x = {}, float(GAP_Y)
    for column in sorted(columns, reverse=True):
        texts = [line for one in columns[column] if one in boxes for line in boxes[one]]
        wide = max((width(line) for line in texts), default=0) * LETTER + 2 * PADDING
        y = (whole - totals[column] + GAP_Y) / 2
        for one in columns[column]:
            places[one] = (x, y, wide, heights[one])
            y += heights[one] + GAP_Y
        x += wide + GAP_X
    return places, (x - GAP_X + GAP_Y, whole)


def _text(node: Ancestor) -> tuple[str, str]:
    if node.manifest is None:
        size = "" if node.record.bytes is None else megabytes(node.record.bytes)
        return node.title, size
    what = contents(node.manifest)
    return node.title, what if len(what) <= 44 else f"{what[:43]}…"


def _box(place: Place, lines: tuple[str, str], kind: str) -> str:
    x, y, wide, high = place
    texts = "".join(
        f'<text x="{x + PADDING:.1f}" y="{y + PADDING + LINE * (number + 0.75):.1f}"{style}>{escape(line)}</text>'
        for number, (line, style) in enumerate(zip(lines, ("", ' class="what"'), strict=True))
    )
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high}" class="{kind}"/>{texts}'


def _edge(start: Place, end: Place) -> str:
    x1, y1 = start[0] + start[2], start[1] + start[3] / 2
    x2, y2 = end[0], end[1] + end[3] / 2
    bend = (x2 - x1) / 2
    return f'<path d="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"/>'


def _passage(place: Place) -> str:
    x, y, wide, high = place
    return f'<path d="M{x:.1f} {y + high / 2:.1f} H{x + wide:.1f}"/>'
