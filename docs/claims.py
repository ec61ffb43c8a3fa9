"""`python docs/claims.py` writes `claims.md`, and the index in the README, from `claims.toml` and
from the results that benchmarks wrote.

A claim's `ours` takes figures from its `source`: `{row | column}` from a table, where the row is
known by its first cells, `a & b`, and `{words}` the number that follows these. Every other number
must occur in the source too. A source is a results page with a heading, `results_gp.md#Sizes`, or
tests of one file, `tests/test_x.py::test_a test_b`."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA, PAGE, README = ROOT / "docs" / "claims.toml", ROOT / "docs" / "claims.md", ROOT / "README.md"
VERDICTS = ("reproduced", "partly", "refuted", "not tried")
NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?!\w)")
INDEX = re.compile(r"\| paper \| claims \|.*?(?=\n\n)", re.DOTALL)
Claim = dict[str, Any]


def read() -> dict[str, Any]:
    """Papers by name, commands by source, and all claims."""
    return tomllib.loads(DATA.read_text())


def section(claim: Claim) -> str:
    """What stands under the heading of the source, up to the next one; the whole file where none is
    named."""
    name, _, heading = claim["source"].partition("::")[0].partition("#")
    text = (ROOT / (name if name.startswith("tests/") else f"benchmarks/{name}")).read_text()
    if not heading:
        return text
    found = re.search(
        rf"^(#+) {re.escape(heading)}.*?(?=^#{{1,2}} |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise ValueError(f"{claim['source']}: there is no such heading")
    return found[0]


def plain(cell: str) -> str:
    """A cell without marks."""
    return re.sub("[*`]", "", cell).strip()


def cell(text: str, row: str, column: str) -> str:
    """What stands in a table, in the first row that begins with these cells, under this head."""
    first = [plain(part) for part in row.split("&")]
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        rows = [
            [plain(c) for c in line.strip().strip("|").split("|")] for line in block.splitlines()
        ]
        if plain(column) in rows[0]:
            for cells in rows[2:]:
                if cells[: len(first)] == first:
                    return cells[rows[0].index(plain(column))]
    raise ValueError(f"no cell {row!r}, {column!r}")


def after(text: str, words: str) -> str:
    """The number that follows these words."""
    found = re.search(rf"{re.escape(words)} ({NUMBER.pattern})", " ".join(text.split()))
    if found is None:
        raise ValueError(f"no number after {words!r}")
    return found[1]


def ours(claim: Claim) -> str:
    """What was found, the figures taken from the source. ValueError where a number is not in it."""
    if "source" not in claim:
        return claim["ours"]
    text = section(claim)
    said = re.sub(
        r"\{([^{}]+)\}",
        lambda m: cell(text, *m[1].split(" | ")) if " | " in m[1] else after(text, m[1]),
        claim["ours"],
    )
    missing = set(NUMBER.findall(said)) - set(NUMBER.findall(text))
    if missing:
        raise ValueError(f"{claim['place']}: {', '.join(sorted(missing))} not in {claim['source']}")
    return said


def command(claim: Claim, commands: dict[str, str]) -> str:
    """How to get the figures again."""
    if "run" in claim or "source" not in claim:
        return claim.get("run", "")
    path, _, tests = claim["source"].partition("::")
    if tests:
        return f"pytest -m '' {path} -k '{' or '.join(tests.split())}'"
    return commands.get(path) or commands[path.partition("#")[0]]


def page() -> Iterator[str]:
    """Lines of the page."""
    data = read()
    yield data["preface"].strip()
    for name, paper in data["papers"].items():
        yield f"\n## {paper['title']}\n\n{paper['about']}\n"
        yield "| place | claim | here | verdict | figures from | command |\n|---|---|---|---|---|---|"
        for claim in (c for c in data["claim"] if c["paper"] == name):
            where = claim.get("source", "").partition("::")[0], command(claim, data["commands"])
            cells = [claim["place"], claim["says"], ours(claim), f"**{claim['verdict']}**"]
            cells += [f"`{w}`" if w else "" for w in where]
            yield "| " + " | ".join(" ".join(c.replace("|", r"\|").split()) for c in cells) + " |"


def index() -> str:
    """The table of the README."""
    data = read()
    lines = [
        "| paper | claims | " + " | ".join(VERDICTS) + " |",
        "|---|" + "---|" * (1 + len(VERDICTS)),
    ]
    for name, paper in data["papers"].items():
        found = Counter(c["verdict"] for c in data["claim"] if c["paper"] == name)
        cells = [paper["title"], found.total(), *(found[v] for v in VERDICTS)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text("\n".join(page()) + "\n")
    README.write_text(INDEX.sub(lambda _: index(), README.read_text()))
