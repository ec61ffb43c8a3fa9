"""The Python of the how-to pages runs, after the few lines that a page leaves to its reader."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
MODEL = """
import jax, itertools, numpy as np, vijax, vijax as vi
from vijax import data
key = jax.random.key(0)
rng = np.random.default_rng(0)
"""
BEFORE = {
    "own-data": MODEL
    + """
import os, pyarrow as pa, pyarrow.parquet as pq
os.mkdir("clicks")
columns = {"age": rng.normal(size=5000), "visits": rng.normal(size=5000), "price": rng.normal(size=5000)}
columns["bought"] = columns["age"] + rng.normal(size=5000)
pq.write_table(pa.table(columns), "clicks/part.parquet", row_group_size=1000)
model = vi.models.ard_regression(3)
words = ["tree", "leaf", "root", "river", "stone", "cloud", "light", "grass"]
data.prepare([(str(i), " ".join(rng.choice(words, 4))) for i in range(1200)], "shards")
rows = (np.stack([columns[n] for n in ("age", "visits", "price")], 1), columns["bought"])
alg = vi.svi(model)
dataset = [tuple(x[i : i + 100] for x in rows) for i in range(0, 5000, 100)] * 250
my_loader, torch_loader, batches = dataset, dataset[:50], dataset[:50]
""",
}
"""Python that comes before that of a page, where it leaves something to its reader."""
ELSEWHERE = {
    "engines": "needs Spark, Ray and others (tests/data/test_engines.py runs each that is there)",
    "pymc": "needs PyMC, which is large (tests/adapters/test_from_pymc.py has what it shows)",
}
CELLS_ALONE = {"cluster", "use-a-run"}
"""Pages whose cells run; their other Python is for Ray, and for runs of several models."""


def blocks(page: str, kinds: str = r"python|\{code-cell\}") -> list[str]:
    return re.findall(
        rf"^```(?:{kinds})\n(?::tags:[^\n]*\n)?(.*?)```",
        (PAGES / f"{page}.md").read_text(),
        flags=re.DOTALL | re.MULTILINE,
    )


def plain_python(block: str) -> str:
    """A cell with its commands of a terminal (`!`) as calls."""
    call = "__import__('subprocess').run({!r}, shell=True, check=True)"
    lines = block.split("\n")
    return "\n".join(call.format(line[1:]) if line[:1] == "!" else line for line in lines)


PROGRAMS = sorted(page.stem for page in PAGES.glob("*.md") if blocks(page.stem))


def test_the_python_of_every_page_can_be_read():
    assert BEFORE.keys() | ELSEWHERE.keys() | CELLS_ALONE <= set(PROGRAMS)
    for page in PROGRAMS:
        for block in blocks(page):
            compile(plain_python(block), f"{page}.md", "exec")


def test_every_page_shows_what_its_build_made():
    """Each how-to has cells that the build runs."""
    pages = {page.stem for page in PAGES.glob("*.md")} - {"index"}
    assert {page for page in pages if blocks(page, r"\{code-cell\}")} == pages


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(set(PROGRAMS) - ELSEWHERE.keys()))
def test_the_python_of_a_page_runs(page, tmp_path):
    root = str(Path(__file__).parents[2])
    environment = dict(os.environ, PYTHONPATH=root, MPLBACKEND="agg")
    found = blocks(page, r"\{code-cell\}") if page in CELLS_ALONE else blocks(page)
    cells = [plain_python(block) for block in found]
    script = "\n".join([BEFORE.get(page, ""), *cells]).replace("s3://bucket/", "")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
