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
        (["--out", "o", "--by", "sample", "--level", "5"], "level: expected a probability"),
        (["--out", "o", "--by", "sample", "--family", "categorical"], "family: expected one of"),
        (["--out", "o", "--by", "sample", "--weights", "sample"], "weights: expected numbers"),
        (["--out", "o", "--by", "sample", "--precisions", "sample"], "precisions: expected num"),
    ],
)
def test_wrong_requests_are_told(files, capsys, options, said):
    assert main([*SAMPLES, *options]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_coefficient_leaves_no_folder_behind(files, capsys):
    assert main([*SAMPLES, "--out", "o", "--by", "sample", "--of", "dose"]) == 2
    assert not (files / "o").exists()
    assert main([*SAMPLES, "--out", "o", "--by", "sample", "--of", "treat[b]"]) == 0
    assert "treat[b], 6 responses" in capsys.readouterr().out


NAMES = ["000", "001", "007", "NA", "nan", "10000000000000001", "10000000000000002", "1e3"]


def test_names_are_exact_text(tmp_path, monkeypatch):
    """Of responses, of samples, and of the groups that are fitted."""
    monkeypatch.chdir(tmp_path)
    samples = [*(f"{i:03d}" for i in range(22)), "NA", "22"]
    donors = ["01", "1", "001"] * 8
    lines = [f"{name},{t},{d}" for name, t, d in zip(samples, TREAT, donors, strict=True)]
    (tmp_path / "samples.csv").write_text("\n".join(["sample,treat,donor", *lines]))
    y = RNG.normal(size=(8, 24))
    lines = [",".join([name, *map(str, y[i])]) for i, name in enumerate(NAMES)]
    (tmp_path / "genes.csv").write_text("\n".join([",".join(["gene", *samples]), *lines]))
    formula = "~ treat + (1 | donor)"
    options = ["--by", "sample", "--out", "o"]
    assert main(["many", "samples.csv", "--formula", formula, *SAMPLES[4:], *options]) == 0
    table = {"treat": TREAT, "donor": np.array(donors)}
    direct = vi.glmm.many(formula, table, y.T, key=jax.random.key(0))
    fits = vi.glmm.many.load("o/fits.npz", "samples.csv", dict(zip(NAMES, y, strict=True)))
    assert fits.responses == tuple(NAMES)
    np.testing.assert_allclose(fits.mean, direct.mean, rtol=1e-5)
    assert set(fits.model("007").design.factors[0].levels) == {"01", "1", "001"}


@pytest.mark.parametrize(
    ("names", "said"),
    [(["a", ""], "none in line 3"), (["a", "a"], "'a' in line 2 and in line 3")],
)
def test_rows_without_names_of_their_own_are_told(files, capsys, names, said):
    lines = (files / "genes.csv").read_text().splitlines()
    lines[1:3] = [
        f"{name},{line.partition(',')[2]}" for name, line in zip(names, lines[1:3], strict=True)
    ]
    (files / "genes.csv").write_text("\n".join(lines))
    assert main([*SAMPLES, "--by", "sample", "--out", "o"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("by", [True, False])
def test_numbers_that_stand_for_missing_cells_are_told(files, capsys, by):
    """As rows and as columns; then they are missing."""
    y = np.abs(Y)
    y[3, 2] = -999
    with open("genes.csv", "w", newline="") as file:
        rows = csv.writer(file)
        if by:
            rows.writerow(["gene", *(f"s{i}" for i in range(24))])
            rows.writerows([f"g{j}", *y[:, j]] for j in range(6))
        else:
            rows.writerow([f"g{j}" for j in range(6)])
            rows.writerows(y.tolist())
    options = [*SAMPLES, *["--by", "sample"][: 2 * by]]
    assert main([*options, "--out", "o"]) == 0
    said = capsys.readouterr().err
    assert "-999 is far from all other numbers of 'g2'" in said
    assert "--missing-words=-999 NA" in said
    assert main([*options, "--out", "p", "--missing-words=-999", "NA"]) == 0
    assert "-999 is far" not in capsys.readouterr().err
    y[3, 2] = np.nan
    direct = vi.glmm.many("~ treat", {"treat": TREAT}, y, key=jax.random.key(0))
    np.testing.assert_allclose(vi.glmm.many.load("p/fits.npz").mean, direct.mean, rtol=1e-5)


def test_samples_that_lack_a_cell_are_dropped_on_request(files, capsys):
    rows = (files / "samples.csv").read_text().splitlines()
    rows[4] = "s3,"
    (files / "samples.csv").write_text("\n".join(rows))
    options = [*SAMPLES, "--by", "sample", "--out", "o"]
    assert main(options) == 2
    said = capsys.readouterr().err
    assert "got none in line 5" in said
    assert "--missing drop" in said
    assert main([*options, "--missing", "drop"]) == 0
    assert "1 of 24 rows lack a cell" in capsys.readouterr().out
    kept = np.arange(24) != 3
    direct = vi.glmm.many("~ treat", {"treat": TREAT[kept]}, Y[kept], key=jax.random.key(0))
    np.testing.assert_allclose(vi.glmm.many.load("o/fits.npz").mean, direct.mean, rtol=1e-5)
