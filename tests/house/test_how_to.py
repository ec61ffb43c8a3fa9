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
    "devices": MODEL + "data = rng.normal(size=(9000, 1))\nalg = "
    "vi.svi(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))",
    "diagnose": MODEL + 'model = vi.density({"x": vi.free()}, log_prior=lambda v: -v["x"] ** 2, '
    'log_lik=lambda v, y: -0.5 * (y - v["x"]) ** 2)\ndata = rng.normal(size=50)',
    "formulas": "import pandas\nfrom tests.models.mixed_tables import SLEEP\ntable = "
    "pandas.DataFrame(SLEEP)\n"
    "formula = 'reaction ~ days + (1 | subject)'",
    "effects": "",
    "many": MODEL
    + """
table = {"treat": list("ab") * 12, "donor": np.repeat(["d1", "d2", "d3", "d4", "d5", "d6"], 4)}
responses = {f"g{i}": rng.normal(size=24) for i in range(4)}
""",
    "hierarchies": "",
    "grow": "",
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
    "recommend": """
import numpy as np
rng = np.random.default_rng(0)
pairs = sorted({(int(u), int(i)) for u, i in zip(rng.integers(0, 1200, 9000), rng.integers(0, 60, 9000))})
open("taken.csv", "w").write("user,item\\n" + "".join(f"u{u},i{i}\\n" for u, i in pairs))
""",
    "running": MODEL + "data = rng.normal(size=(90, 1))\nalg = "
    "vi.cavi(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))",
    "switching-dynamics": "",
    "numpyro": "",
    "topics-with-covariates": "",
}
"""Python that comes before that of a page."""
ELSEWHERE = {
    "engines": "needs Spark, Ray and others (tests/data/test_engines.py runs each that is there)",
    "cluster": "needs Ray, and processes that something else starts (tests/scale has two on one "
    "machine)",
    "pymc": "needs PyMC, which is large (tests/adapters/test_from_pymc.py has what it shows)",
    "use-a-run": "its lines are for runs of several models (tests/app has each)",
}


def blocks(page: str) -> list[str]:
    return re.findall(
        r"^```(?:python|\{code-cell\})\n(?::tags:[^\n]*\n)?(.*?)```",
        (PAGES / f"{page}.md").read_text(),
        flags=re.DOTALL | re.MULTILINE,
    )


def test_every_page_with_python_is_run_or_says_why_not():
    pages = {page.stem for page in PAGES.glob("*.md") if blocks(page.stem)}
    assert pages == BEFORE.keys() | ELSEWHERE.keys()
    for page in ELSEWHERE:
        for block in blocks(page):
            compile(block, f"{page}.md", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("page", BEFORE)
def test_the_python_of_a_page_runs(page, tmp_path):
    root = str(Path(__file__).parents[2])
    environment = dict(
        os.environ, PYTHONPATH=root, XLA_FLAGS="--xla_force_host_platform_device_count=8"
    )
    script = "\n".join([BEFORE[page], *blocks(page)]).replace("s3://bucket/", "")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
