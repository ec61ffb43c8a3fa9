"""Counts of what makes code hard to search and hard to read, by room: `python -m tests.house.style`
writes them down (tests/house/style.json), and tests/house/test_style.py lets none of them rise."""

import ast
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "vijax"
WRITTEN = Path(__file__).with_name("style.json")


def read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IRREGULAR = read_words("""
    begun brought built caught chosen done drawn felt found given gone got grown held kept known
    laid left lost made met paid said seen sent shown sought spent spoken taken taught thought
    thrown told woven written
""")
ENDS_SO_BY_CHANCE = read_words("""
    embed exceed feed need proceed seed speed succeed
""")
QUESTIONS = read_words("""
    is has are was can may must should
""")

PREPOSITIONS = read_words("""
    above after among at before below beside between by for in inside into of on onto out outside
    over than under up within without
""")

STOCK = IRREGULAR | read_words("""
    ahead alone apart asked away both each ended every far given here how inside least more most
    moved named near now old one other others outside own placed rest same settled some there
    twice what where whole why
""")
"""Words that say nothing of what a local holds."""

KINDS = {
    "participle names": "functions and classes whose name ends in a participle (`moved`, "
    "`_rows_found`)",
    "preposition names": "functions and classes whose name begins or ends in a preposition (`of`, "
    "`over_words`)",
    "stock locals": "assignments to `found`, `known`, `there` and their like",
    "ternaries": "conditional expressions",
    "long lines": "lines of more than 100 characters",
    "names": "functions and classes in all",
    "assignments": "assignments in all",
}


def is_participle(word: str) -> bool:
    regular = word.endswith("ed") and len(word) > 4 and word not in ENDS_SO_BY_CHANCE
    return regular or word in IRREGULAR


def is_participle_name(name: str) -> bool:
    """Whether a name says in what state something is, and not what it is: `settled`, `_rows_found`.

    >>> [is_participle_name(name) for name in ("settled", "_rows_found", "is_sorted", "sorted_rows")]
    [True, True, False, False]
    """
    words = name.strip("_").lower().split("_")
    return is_participle(words[-1]) and words[0] not in QUESTIONS


def is_preposition_name(name: str) -> bool:
    """Whether a name begins or ends in a preposition, but for converters (`from_numpyro`,
    `to_arviz`, `with_key`).

    >>> [is_preposition_name(name) for name in ("of", "over_words", "words_of", "from_numpyro", "log_prob")]
    [True, True, True, False, False]
    """
    words = name.strip("_").lower().split("_")
    return words[0] in PREPOSITIONS or words[-1] in PREPOSITIONS


def counts_of_file(source: str) -> Counter[str]:
    """How often each of `KINDS` is found in the source of a module."""
    counts: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__"):
            counts["names"] += 1
            counts["participle names"] += is_participle_name(node.name)
            counts["preposition names"] += is_preposition_name(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts["assignments"] += 1
            counts["stock locals"] += node.id in STOCK
        elif isinstance(node, ast.IfExp):
            counts["ternaries"] += 1
    counts["long lines"] = sum(len(line) > 100 for line in source.splitlines())
    return counts


def modules(package: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    """Room and source of each module; modules beside the rooms are the room `vijax`."""
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).parts
        yield (inside[0] if len(inside) > 1 else "vijax"), path.read_text()


def counts_by_room(package: Path = PACKAGE) -> dict[str, dict[str, int]]:
    rooms: dict[str, Counter[str]] = {}
    for room, source in modules(package):
        rooms.setdefault(room, Counter()).update(counts_of_file(source))
    return {room: {kind: rooms[room][kind] for kind in KINDS} for room in sorted(rooms)}


def share(counts: dict[str, dict[str, int]], kind: str, whole: str) -> float:
    return sum(room[kind] for room in counts.values()) / sum(
        room[whole] for room in counts.values()
    )


def main() -> None:
    counts = counts_by_room()
    WRITTEN.write_text(json.dumps(counts, indent=1) + "\n")
    for kind, whole in (
        ("participle names", "names"),
        ("preposition names", "names"),
        ("stock locals", "assignments"),
    ):
        print(f"{kind}: {100 * share(counts, kind, whole):.1f} % of {whole}")
    for kind in ("ternaries", "long lines"):
        print(f"{kind}: {sum(room[kind] for room in counts.values()):,}")


if __name__ == "__main__":
    main()
