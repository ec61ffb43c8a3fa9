"""`vijax many`: regressions of many responses from two files."""

import csv

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.app.cli import main

RNG = np.random.default_rng(0)
TREAT = np.array(list("ab") * 12)
Y = 2.0 * (TREAT == "b")[:, None] * (np.arange(6) < 2) + RNG.normal(size=(24, 6))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("samples.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sample", "treat"])
        rows.writerows([f"s{i}", TREAT[i]] for i in range(24))
    with open("genes.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["gene", *(f"s{i}" for i in reversed(range(24)))])
        rows.writerows([f"g{j}", *Y[::-1, j]] for j in range(6))
    return tmp_path


SAMPLES = ["many", "samples.csv", "--formula", "~ treat", "--responses", "genes.csv"]


def test_rows_of_a_file_are_paired_by_the_names_of_samples(files, capsys):
    """The columns of the file are in another order than the samples."""
    assert main([*SAMPLES, "--by", "sample", "--out", "found"]) == 0
    printed = capsys.readouterr().out
    assert "6 of 6 fits can be used" in printed
    assert "treat[b], 6 responses" in printed
    direct = vi.glmm.many("~ treat", {"treat": TREAT}, Y, key=jax.random.key(0))
    loaded = vi.glmm.many.load(files / "found" / "fits.npz")
    assert loaded.responses == tuple(f"g{j}" for j in range(6))
    np.testing.assert_allclose(loaded.mean, direct.mean, rtol=1e-5)
    with open("found/1-treat-b.csv") as file:
        table = list(csv.DictReader(file))
    assert {table[0]["response"], table[1]["response"]} == {"g0", "g1"}
    assert len((files / "found" / "estimates.csv").read_text().splitlines()) == 1 + 6 * 3


@pytest.mark.parametrize(
    ("header", "first", "said"),
    [
        ("gene", "low", "expected numbers in 's23' of genes.csv, got 'low' in line 2"),
        ("s24", "1", "expected a column of genes.csv for each sample, got none for ['s23']"),
        ("s23", "1", "first column of genes.csv, got the sample 's23'"),
    ],
)
def test_wrong_rows_are_told(files, capsys, header, first, said):
    """The first cell of numbers is another; or its sample is; or rows have no names."""
    lines = (files / "genes.csv").read_text().splitlines()
    names = lines[0].split(",")
    names[0] = header
    if header != "gene":
        names[1] = "other"
    cells = lines[1].split(",")
    cells[1] = first
    (files / "genes.csv").write_text("\n".join([",".join(names), ",".join(cells), *lines[2:]]))
    assert main([*SAMPLES, "--by", "sample", "--out", "o"]) == 2
    assert said in capsys.readouterr().err


def test_columns_that_are_no_samples_are_told(files, capsys):
    rows = (files / "samples.csv").read_text().splitlines()
    (files / "samples.csv").write_text("\n".join(rows[:-1]))
    assert main([*SAMPLES, "--by", "sample", "--out", "o"]) == 0
    assert "no samples are left out: 's23'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "."], "is not empty"),
        (["--out", "o"], "transpose"),
        (["--out", "o", "--by", "treat"], "a name for each sample"),
        (["--out", "o", "--by", "nothing"], "nothing"),
        (["--out", "o", "--by", "sample", "--family", "poisson"], "counts"),
        (["--out", "o", "--by", "sample", "--of", "dose"], "--of: expected coefficients"),
        (["--out", "o", "--by", "sample", "--prior", "treat"], "priors: expected one of"),
        (["--out", "o", "--by", "sample", "--rate", "5"], "rate: expected a probability"),
    ],
)
def test_wrong_requests_are_told(files, capsys, options, said):
    assert main([*SAMPLES, *options]) == 2
    assert said in capsys.readouterr().err
