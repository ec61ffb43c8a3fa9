"""The programs of the page "From your engine": each gives the coefficients of least squares, where
its package installs."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.process_cases import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "engines.md").read_text(encoding="utf-8")
PACKAGES = {
    "Spark": "pyspark",
    "Dask": "dask.dataframe",
    "Ray Data": "ray.data",
    "Hugging Face datasets": "datasets",
    "PyTorch": "torch",
    "TensorFlow": "tensorflow",
    "grain": "grain",
    "BigQuery, Snowflake, Redshift": "pyarrow",
}
OWN_PARTS = {"PyTorch": "torch", "Hugging Face": "datasets", "grain": "grain"}
NUM_ROWS = 10_000
TAIL = """
import json, numpy as np
answer = {"weights": np.asarray(fit.posterior["coefficients"].mean()[0]).ravel().tolist()}
answer["groups"] = fit.trace["num_groups"].tolist()
if "topics" in globals():
    shares = np.asarray(topics.posterior["topics"].mean())
    answer["topics"] = [sorted(documents.vocabulary[i] for i in np.argsort(-row)[:4]) for row in shares]
print(json.dumps(answer))
"""


def sections():
    """The Python of each section by its title, and of own parts by the comment that begins it."""
    parts = re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)
    code = {"": blocks(parts[0])} | {
        title: blocks(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    own = {
        block.split("\n")[0].removeprefix("# "): block
        for block in code["Each process its own part"]
    }
    return code, own


def blocks(text):
    """The programs of a part of the page, without the cells that its build alone needs."""
    pattern = r"^```(?:python|\{code-cell\})\n(?!:tags)(.*?)```"
    return re.findall(pattern, text, flags=re.DOTALL | re.MULTILINE)


CODE, OWN = sections()


def test_every_engine_of_the_page_is_run():
    assert CODE.keys() - {"", "Each process its own part"} == PACKAGES.keys()
    assert OWN.keys() == OWN_PARTS.keys()
    for title, code in CODE.items():
        assert code, title
        compile("\n".join(code), title, "exec")


def wanted(name):
    """Skips the test without the package. (It is imported in another process, for some of them
    start threads.)"""
    try:
        found = importlib.util.find_spec(name.split(".")[0])
    except ValueError:
        found = None
    if found is None:
        pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows and texts in Parquet files, and the weights by least squares."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pandas")
    path = tmp_path_factory.mktemp("engines")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_ROWS, 3))
    y = x @ [1.0, -2.0, 0.5] + rng.normal(size=NUM_ROWS)
    table = arrow.table(dict(zip(["age", "visits", "price"], x.T, strict=True)) | {"bought": y})
    for name, rows in (("clicks", table), ("texts", arrow.table({"text": texts(rng)}))):
        (path / name).mkdir()
        half = rows.num_rows // 2
        for i, part in enumerate((rows.slice(0, half), rows.slice(half))):
            parquet.write_table(part, path / name / f"{i}.parquet", row_group_size=1000)
    ids = {word: i for i, word in enumerate(WORDS)}
    bags = [
        np.unique([ids[word] for word in text.split()], return_counts=True) for text in texts(rng)
    ]
    columns = {
        "ids": [bag[0].tolist() for bag in bags],
        "counts": [bag[1].tolist() for bag in bags],
    }
    (path / "bags").mkdir()
    parquet.write_table(arrow.table(columns), path / "bags" / "0.parquet")
    (path / "words.txt").write_text("\n".join(WORDS))
    return path, np.linalg.lstsq(x, y, rcond=None)[0]


WORDS = ["tree", "leaf", "root", "moss", "loan", "bank", "bond", "rate"]


def texts(rng):
    """Texts of two themes."""
    return [" ".join(rng.choice(WORDS[4 * (i % 2) :][:4], 12)) for i in range(400)]


def answers(code, folder, count=1):
    """What each of `count` processes prints in its last line."""
    import json

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "JAX_PLATFORMS": "cpu",
        "PYSPARK_PYTHON": sys.executable,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "cache"),
    }
    port = free_port()
    processes = []
    for k in range(count):
        own = {
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
            "JAX_NUM_PROCESSES": str(count),
            "JAX_PROCESS_ID": str(k),
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=folder,
                env=environment | (own if count > 1 else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ends = [(*process.communicate(timeout=500), process.returncode) for process in processes]
    assert all(code == 0 for *_, code in ends), ends[-1][1][-3000:]
    return [json.loads(said.splitlines()[-1]) for said, *_ in ends]


@pytest.mark.slow
@pytest.mark.parametrize("engine", PACKAGES)
def test_a_program_of_the_page_gives_the_coefficients(engine, folder):
    wanted(PACKAGES[engine])
    if engine == "Spark" and shutil.which("java") is None:
        pytest.skip("Spark wants Java")
    path, weights = folder
    code = "\n".join([*CODE[""], *CODE[engine], TAIL]).replace("gs://bucket/", "")
    (answer,) = answers(code, path)
    np.testing.assert_allclose(answer["weights"], weights, atol=0.02)
    if "topics" in answer:
        assert sorted(answer["topics"]) == sorted([sorted(WORDS[:4]), sorted(WORDS[4:])])


BEFORE_OWN = {
    "PyTorch": """
import pandas, torch
table = pandas.read_parquet("clicks")
tensors = torch.tensor(table[columns].to_numpy()), torch.tensor(table["bought"].to_numpy())
dataset = torch.utils.data.TensorDataset(*tensors)
""",
    "Hugging Face": """
import datasets
dataset = datasets.Dataset.from_parquet("clicks/*.parquet")
""",
    "grain": """
import grain, itertools, pandas
table = pandas.read_parquet("clicks")
x, y = table[columns].to_numpy(), table["bought"].to_numpy()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", OWN_PARTS)
def test_two_processes_use_all_that_each_streams(engine, folder):
    """500 rows at a step, 250 of each; with half of them, or the same half in both, the
    coefficients of 20 passes would be off."""
    wanted(OWN_PARTS[engine])
    path, weights = folder
    code = CODE[""][0].replace("key = jax", "vi.scale.initialize()\nkey = jax")
    own = OWN[engine].replace("vi.scale.initialize()\n", "")
    both = answers("\n".join([code, BEFORE_OWN[engine], own, TAIL]), path, 2)
    assert both[0] == both[1]
    assert set(both[0]["groups"]) == {500.0}
    np.testing.assert_allclose(both[0]["weights"], weights, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("engine", OWN_PARTS)
def test_parts_that_nobody_named_are_refused(engine, folder):
    """They were used by half, in silence."""
    wanted(OWN_PARTS[engine])
    path, _ = folder
    code = CODE[""][0].replace("key = jax", "vi.scale.initialize()\nkey = jax")
    own = OWN[engine].replace("vi.scale.initialize()\n", "").replace("own_part", "stream")
    own = own.replace("fit = vi.fit(", "refusal = refused(lambda: vi.fit(").replace(
        "mesh=vi.scale.mesh())", "mesh=vi.scale.mesh()))"
    )
    catch = "def refused(run):\n    try:\n        run()\n    except ValueError as error:\n        return str(error)\n"
    tail = "import json\nprint(json.dumps(refusal))"
    both = answers("\n".join([code, BEFORE_OWN[engine], catch, own, tail]), path, 2)
    assert all("vijax.data.own_part(source, N)" in text for text in both)
