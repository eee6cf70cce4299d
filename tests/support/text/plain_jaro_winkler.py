"""Jaro-Winkler letter by letter, which fast implementations are compared with."""

from __future__ import annotations


def jaro_winkler(one: str, other: str) -> float:
    """Winkler 1990, letter by letter; his prefix counts from a similarity of 0.7 on."""
    if not one or not other:
        return float(one == other)
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    free = [True] * len(other)
    first = []
    for place, character in enumerate(one):
        for near in range(max(0, place - reach), min(len(other), place + reach + 1)):
            if free[near] and other[near] == character:
                free[near] = False
                first.append(character)
                break
    second = [character for character, unused in zip(other, free, strict=True) if not unused]
    if not first:
        return 0.0
    matches, turned = len(first), sum(a != b for a, b in zip(first, second, strict=True)) // 2
    jaro = (matches / len(one) + matches / len(other) + (matches - turned) / matches) / 3
    prefix = 0
    while prefix < min(4, len(one), len(other)) and one[prefix] == other[prefix]:
        prefix += 1
    return jaro + prefix * 0.1 * (1 - jaro) if jaro > 0.7 else jaro
