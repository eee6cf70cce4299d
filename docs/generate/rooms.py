"""Map of rooms and floors as a picture, from the import contracts of pyproject.toml.

    .venv/bin/python -m docs.generate.rooms

writes docs/explain/rooms.svg; a test compares the file with the contracts.
"""

from __future__ import annotations

import tomllib
from typing import Any
from xml.sax.saxutils import escape

from infra.settings import REPOSITORY

PICTURE = REPOSITORY / "docs" / "explain" / "rooms.svg"
WIDTH, PADDING = 980, 12
ROOM, GAP, STAIRS = 24, 4, 12
"""Height of a room; between rooms of a floor; between floors."""
SHADES = {"flows": "#fdf3dc", "tasks": "#e8f1fb", "models": "#f3e8fb", "kg": "#e6f5e6", "infra": "#eeeeee"}
LINES = {"flows": "#b88a2a", "tasks": "#3a76b8", "models": "#7a4ab8", "kg": "#3a8a4a", "infra": "#777777"}


def floors() -> dict[str, list[list[str]]]:
    """Return the floors of each folder, the highest first, with the rooms of each."""
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, list[list[str]]] = {}
    for contract in content["tool"]["importlinter"]["contracts"]:
        for folder in contract.get("containers", ()):
            found[folder] = [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]
    return found


def drawn(rooms: dict[str, list[list[str]]]) -> str:
    """Return the picture: flows on top, tasks, models beside kg, and infra at the ground."""
    blocks: list[str] = []
    top = PADDING
    for row in (("flows",), ("tasks",), ("models", "kg"), ("infra",)):
        width = (WIDTH - PADDING * (len(row) + 1)) / len(row)
        heights = []
        for place, folder in enumerate(row):
            left = PADDING + place * (width + PADDING)
            heights.append(_height(rooms[folder], width))
            blocks.append(_block(folder, rooms[folder], left, top, width))
        top += max(heights) + PADDING
    style: Any = f'viewBox="0 0 {WIDTH} {top:.0f}" font-family="sans-serif" font-size="12"'
    background = f'<rect width="{WIDTH}" height="{top:.0f}" fill="white"/>'
    title = "<title>Rooms and floors: imports go down</title>"
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {style}>', title, background, *blocks, "</svg>\n"]
    )


def _block(folder: str, floors_of: list[list[str]], left: float, top: float, width: float) -> str:
    parts = [
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{_height(floors_of, width):.0f}" rx="8" '
        f'fill="white" stroke="{LINES[folder]}"/>',
        f'<text x="{left + 12:.0f}" y="{top + 20:.0f}" font-weight="bold" fill="{LINES[folder]}">{folder}/</text>',
    ]
    y = top + 30.0
    for floor in floors_of:
        for row in _wrapped(floor, width):
            each = (width - 2 * STAIRS - GAP * (len(row) - 1)) / len(row)
            for place, room in enumerate(row):
                parts.append(_room(folder, room, left + STAIRS + place * (each + GAP), y, each))
            y += ROOM + GAP
        y += STAIRS - GAP
    return "\n".join(parts)


def _room(folder: str, name: str, x: float, y: float, width: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{ROOM}" rx="4" fill="{SHADES[folder]}" '
        f'stroke="{LINES[folder]}" stroke-width="0.6"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 16:.0f}" text-anchor="middle" fill="#222">{escape(name)}</text>'
    )


def _wrapped(floor: list[str], width: float) -> list[list[str]]:
    """Return the rooms of a floor in lines that their names fit into."""
    each = max(len(room) for room in floor) * 7.2 + 14
    most = max(1, int((width - 2 * STAIRS + GAP) / (each + GAP)))
    lines = -(-len(floor) // most)
    size = -(-len(floor) // lines)
    return [floor[start : start + size] for start in range(0, len(floor), size)]


def _height(floors_of: list[list[str]], width: float) -> float:
    lines = [len(_wrapped(floor, width)) for floor in floors_of]
    return 30.0 + sum(lines) * (ROOM + GAP) + len(lines) * (STAIRS - GAP)


if __name__ == "__main__":
    PICTURE.write_text(drawn(floors()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(REPOSITORY)}")
