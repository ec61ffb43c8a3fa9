"""Regressions by a formula on the command line: nothing of a file is run, and later rows are read
as training was."""

import csv
import json
import re
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import vijax as vi
from tests.models.formulas.answers.made import drawn
from tests.naming import check_names, naming
from vijax.app.catalogue import glmm
from vijax.app.catalogue.glmm import Frame
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.report.pages import read_run
from vijax.app.runs import checked
from vijax.data.schema.schema import Schema
from vijax.trust.check import Check, Verdict

QUICK = ["held_out=0", "model.num_draws=100", "algorithm.max_gradients=400"]
EVIL = "dataclasses.inspect.os.system('touch MARKER')"


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Eight patients, 001 to 008, whose means are ten apart."""
    path = tmp_path_factory.mktemp("patients") / "p.csv"
    rng = np.random.default_rng(0)
    rows = [
        f"{10 * k + rng.normal():.3f},{x:.2f},{k + 1:03}"
        for k in range(8)
        for x in rng.normal(size=6)
    ]
    path.write_text("y,x,patient\n" + "\n".join(rows) + "\n")
    return path


def test_a_run_keeps_what_each_column_was_taken_for(run):
    schema = Schema.from_json(json.loads((run / "schema.json").read_text()))
    assert [(column.name, column.roles, column.kind) for column in schema.columns] == [
        ("y", ("response",), "number"),
        ("x", ("term",), "number"),
        ("patient", ("group",), "label"),
    ]
    assert schema["patient"].levels.names == tuple(f"{k:03}" for k in range(1, 9))
    assert schema == vi.load(run).fit.schema


@pytest.fixture(scope="module")
def run(patients):
    folder = patients.parent / "run"
    formula = "model.formula=y ~ x + (1 | patient)"
    assert (
        main(
            ["fit", "glmm", "--data", str(patients), "--out", str(folder), "--set", formula, *QUICK]
        )
        == 0
    )
    return folder


def means_of(run, rows, tmp_path):
    (tmp_path / "new.csv").write_text(
        "x,patient,note\n" + "\n".join(f"{row},007" for row in rows) + "\n"
    )
    return vi.load(run).transform(str(tmp_path / "new.csv"))


def test_a_patient_is_the_same_alone_and_among_others(run, tmp_path, capsys):
    alone = means_of(run, ["0.0,001"], tmp_path)
    assert abs(float(alone["mean"][0])) < 4
    among = means_of(run, ["0.0,001", "0.0,A7", "0.0,8"], tmp_path)
    assert float(among["mean"][0]) == pytest.approx(float(alone["mean"][0]), abs=1e-5)
    assert list(among["patient"]) == ["001", "A7", "8"]
    assert list(among["note"]) == ["007"] * 3
    (tmp_path / "new.csv").write_text("x,patient\n0.0,001\n0.0,A7\n0.0,8\n")
    assert (
        main(
            [
                "transform",
                str(run),
                "--data",
                str(tmp_path / "new.csv"),
                "--out",
                str(tmp_path / "o.csv"),
            ]
        )
        == 0
    )
    shown = capsys.readouterr()
    check_names(shown.out + shown.err, "2 rows", "2 groups", "'A7'", "'8'")


def test_all_groups_are_in_the_tables_and_what_is_modelled_is_said(run):
    (block,) = [block for block in read_run(run).shown if block.title == "Intercept, by patient"]
    assert list(block.labels) == [f"{k:03}" for k in range(1, 9)]
    assert (
        "Modelled is the mean of y."
        in next(b for b in read_run(run).shown if b.title == "Unknowns").note
    )
    written = list(
        csv.reader((run / "tables" / "intercept_by_patient.csv").read_text().splitlines())
    )
    assert [row[0] for row in written[1:]] == [f"{k:03}" for k in range(1, 9)]


def test_effects_of_a_run_are_answered(run, patients, tmp_path, capsys):
    """One more of x moves the mean by its coefficient, in each row."""
    assert main(["effects", str(run), "--draws", "200"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"x +\+1 +-?0\.\d+", shown)
    assert "Effects of groups: of the group of each row." in shown
    out = tmp_path / "effects.csv"
    at = ["--at", "x=0,1", "patient=001", "--ask", "predictions"]
    assert main(["effects", str(run), *at, "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["x"], row["patient"]) for row in rows] == [("0", "001"), ("1", "001")]
    fit = vi.load(run).fit
    summary = dict(zip(fit.summary().names, fit.summary().mean, strict=True))
    difference = float(rows[1]["mean"]) - float(rows[0]["mean"])
    assert difference == pytest.approx(summary["x"], abs=0.1)
    assert main(["effects", str(run), "--ask", "priors"]) == 0
    for what in ("slopes", "variance", "groups", "predictions --by patient"):
        assert main(["effects", str(run), "--ask", *what.split(), "--draws", "50"]) == 0
    assert "R2 conditional" in capsys.readouterr().out
    assert main(["effects", str(run), "--of", "z"]) == 2
    check_names(capsys.readouterr().err, "'x'", "'patient'", "'z'")
    assert main(["effects", str(run), "--at", "x"]) == 2
    assert "expected values by column, x=1,2" in capsys.readouterr().err
    for option in ("--at", "--of"):
        assert main(["effects", str(run), option, "x=1", "x=2"]) == 2
        assert f"{option}: expected each column once, got 'x' twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "option", "others"),
    [
        ("means --of patient --by x", "--by", "comparisons, slopes, predictions"),
        ("means --of patient --kind ratio", "--kind", "comparisons"),
        ("slopes --of x --kind ratio", "--kind", "comparisons"),
        ("predictions --of x", "--of", "comparisons, slopes, means"),
        ("variance --data other.csv", "--data", "comparisons, slopes, predictions, means"),
        ("groups --at x=1", "--at", "comparisons, slopes, predictions, means"),
        ("priors --draws 50", "--draws", "groups"),
    ],
)
def test_an_option_that_a_question_does_not_read_is_refused(run, options, option, others, capsys):
    assert main(["effects", str(run), "--ask", *options.split()]) == 2
    said = capsys.readouterr().err
    assert f"{option}: --ask {options.split()[0]} does not take it" in said
    assert others in said


def test_levels_with_marks_stand_in_quotes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    h = rng.choice(["a:b", "x,y", "7"], 60)
    pa = pytest.importorskip("pandas")
    table = pa.DataFrame({"h": h, "y": rng.normal(size=60) + 9.0 * (h == "7")})
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", "glmm", "--data", str(tmp_path / "t.csv"), "--out", str(tmp_path / "run")]
    settings = ["model.formula=y ~ h", "data.held_out=0"]
    assert main([*command, "--set", *settings]) == 0
    capsys.readouterr()
    effects = ["effects", str(tmp_path / "run"), "--draws", "50"]
    assert main([*effects, "--of", 'h="a:b":7']) == 0
    shown = capsys.readouterr().out
    assert "7 - a:b" in shown
    assert float(re.search(r"7 - a:b +(-?[\d.]+)", shown)[1]) == pytest.approx(9.0, abs=1.5)
    assert main([*effects, "--at", 'h="x,y",7', "--ask", "predictions"]) == 0
    assert "x,y" in capsys.readouterr().out
    wrong = (["--of", "h=a:b"], ["--of", "h=a:b:7"], ["--at", "h=x,y"], ["--at", 'h="x,y'])
    for question in (*wrong, ["--at", "h=x\ny"]):
        assert main([*effects, *question]) == 2
        assert "stands in double quotes" in capsys.readouterr().err


def test_a_page_without_an_answer_tells_why():
    """log(1 - x) is not defined at one more of x: such a run had no page."""
    x = np.linspace(0.1, 0.9, 20)
    model = vi.glmm("y ~ log(1 - x)", {"y": np.cos(9 * x), "x": x})
    draws = drawn(model, {"sigma": np.full(7, 0.5)})
    run = SimpleNamespace(data=SimpleNamespace(train=Frame(model.table)), key=jax.random.key(0))
    effects, explained = glmm._answer_tables(model, run, draws)
    assert "expected finite values of log(1 - x)" in effects.rows[0][1]
    assert explained.rows[0][0] == "R2 marginal"


def test_a_run_is_checked(run, tmp_path, monkeypatch):
    """Each was refused: "its groups are more than data.sample", which no run of a formula has."""
    copy, seen = shutil.copytree(run, tmp_path / "run"), {}

    def check(fit, data, *, key):
        seen.update(fit=fit, data=data)
        return Verdict(True, [], [], {"x": Check("no data", made=False)})

    monkeypatch.setattr(checked, "check", check)
    assert main(["check", str(copy)]) == 0
    assert seen["data"] is seen["fit"].alg.spec.model.form.given
    assert "Can it be trusted?" in [block.title for block in read_run(copy).shown]


PARTS = [
    f"y ~ x + {EVIL}",
    f"{EVIL} ~ x",
    f"y ~ ({EVIL} | patient)",
    "y ~ x + np.load('x.npy', allow_pickle=1)",
]


@pytest.mark.parametrize("part", PARTS)
def test_a_formula_in_a_run_folder_runs_nothing(run, part, tmp_path, monkeypatch, capsys):
    """Loaded, transformed, reported, resumed, or fitted anew with its configuration."""
    monkeypatch.chdir(tmp_path)
    evil = tmp_path / "evil"
    shutil.copytree(run, evil)
    config = (evil / "config.toml").read_text()
    assert "y ~ x + (1 | patient)" in config
    (evil / "config.toml").write_text(config.replace("y ~ x + (1 | patient)", part))
    with pytest.raises(ValueError, match="a listed function, got"):
        vi.load(evil).transform({"x": [0.0], "patient": ["001"]})
    assert main(["transform", str(evil)]) != 0
    assert main(["fit", str(evil / "config.toml")]) != 0
    assert main(["evaluate", str(evil), "--data", str(run.parent / "p.csv")]) != 0
    for command in ("summary", "report", "resume"):
        main([command, str(evil)])
    said = capsys.readouterr().err
    assert "a listed function, got" in said
    assert f"\n    {part}\n    " in said
    assert not list(tmp_path.rglob("MARKER"))


HEADERS = [
    f"a` + {EVIL} + `b",
    f"a`` + {EVIL} + ``b",
    f"`{EVIL}`",
    EVIL,
    f"x); {EVIL}; (",
    "{" + EVIL + "}",
    "y ~ x | g",
]


@pytest.mark.parametrize("header", HEADERS)
def test_the_header_of_a_table_runs_nothing_and_is_a_column(header, tmp_path, monkeypatch):
    """`init` writes a formula that names the column; the formula reads that column, whatever its
    letters."""
    from vijax.data.formulas.parser import parse
    from vijax.models.formulas.formula import term_columns

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([header, "g", "y"])
        writer.writerows(
            [f"{x:.3f}", f"g{i % 8}", f"{x + rng.normal():.3f}"]
            for i, x in enumerate(rng.normal(size=40))
        )
    assert main(["init", "glmm", "--data", "t.csv"]) == 0
    formula = load_config("t_glmm.toml").model.formula
    assert set(term_columns(parse(formula))) == {header, "y"}
    assert vi.glmm(formula, "t.csv").schema.names == ("y", header, "g")
    assert not list(tmp_path.rglob("MARKER"))


@pytest.mark.parametrize("header", HEADERS)
def test_the_header_of_a_table_runs_nothing_in_an_estimator(header, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    from vijax.sklearn.parts.tables import complete_formula

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({header: rng.normal(size=40), "g": np.arange(40) % 8})
    formula, name = complete_formula(None, "g", frame)
    model = vi.glmm(formula, frame.assign(**{name: rng.normal(size=40)}))
    assert model.schema.names == ("y", header, "g")
    named, _ = complete_formula(None, header, frame.assign(**{header: np.arange(40) % 5}))
    groups = frame.assign(**{"y": rng.normal(size=40), header: np.arange(40) % 5})
    assert vi.glmm(named, groups).schema[header].roles == ("group",)
    assert not list(tmp_path.rglob("MARKER"))


def test_covariates_of_topics_run_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus, _ = vi.data.synthetic.lda_corpus(num_documents=30, num_topics=2, vocab_size=20, seed=0)
    with pytest.raises(ValueError, match=naming("prevalence:", "listed")):
        vi.stm(2, corpus, {"x": np.arange(30)}, f"~ x + {EVIL}")
    assert not list(tmp_path.rglob("MARKER"))


CELLS = [
    "=cmd|' /C calc'!A0",
    EVIL,
    "`x`",
    "{x}",
    "__import__('os').system('touch MARKER')",
    "x); (1 | g",
]


def test_the_cells_of_a_table_run_nothing(tmp_path, monkeypatch):
    """As levels of a term, of a group and of a response."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    cells = [CELLS[i % len(CELLS)] for i in range(48)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["y", "h", "g"])
        writer.writerows(
            [f"{y:.3f}", cell, cell] for y, cell in zip(rng.normal(size=48), cells, strict=True)
        )
    model = vi.glmm("y ~ h + (1 | g)", "t.csv")
    assert sorted(model.design.factors[0].levels) == sorted(CELLS)
    assert vi.glmm("h ~ y", "t.csv").law.name == "categorical"
    assert not list(tmp_path.rglob("MARKER"))


HEADER = "a\n[fit]\nseed = 12345\n[model]\nname = 'density'\n#"


@pytest.mark.parametrize("model", ["glmm", "mixture"])
def test_a_header_writes_no_settings(model, tmp_path, monkeypatch):
    """A comment is one line, whatever stands in a name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([HEADER, "Weight\n(kg)", "y"])
        writer.writerows([f"{cell:.3f}" for cell in row] for row in rng.normal(size=(40, 3)))
    assert main(["init", model, "--data", "t.csv"]) == 0
    config = load_config(f"t_{model}.toml")
    assert config.fit.seed != 12345
    assert config.model.name == model


def test_a_level_that_training_lacks_is_said_before_the_fit(tmp_path, capsys):
    path = tmp_path / "l.csv"
    path.write_text(
        "y,h\n" + "\n".join(f"{i * i % 7},{'abc'[i % 2] if i else 'rare'}" for i in range(40))
    )
    quick = ["data.held_out=0.5", "model.num_draws=20", "algorithm.max_gradients=200"]
    codes = []
    for seed in range(6):
        run = ["fit", "glmm", "--data", str(path), "--out", str(tmp_path / f"r{seed}")]
        codes.append(
            main([*run, "--set", "model.formula=y ~ h", f"data.split_seed={seed}", *quick])
        )
    said = capsys.readouterr().err
    assert 2 in codes
    assert "of the rows held out: table: expected levels of 'h' that training has" in said
    assert "data.held_out=0 holds none out" in said


# --- missing cells and scores ---------------------------------------------------------------------
def test_other_tables_are_scored_by_their_own_response(run, patients, tmp_path, capsys):
    assert main(["evaluate", str(run), "--data", str(patients)]) == 0
    whole = capsys.readouterr().out
    assert "nats per row (48 rows)" in whole
    gap = tmp_path / "gap.csv"
    gap.write_text(patients.read_text() + "1.0,,001\n,0.5,002\n")
    assert main(["evaluate", str(run), "--data", str(gap)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == whole.splitlines()[0]
    note = (
        "Rows that lack a cell of the formula are left out (data.missing): lines 50, 51 (2 such)."
    )
    assert note in shown.out + shown.err


def test_new_rows_that_lack_a_cell_of_the_formula_have_empty_results(run, tmp_path):
    gaps = means_of(run, ["0.0,001", ",001", "0.0,"], tmp_path)
    alone = means_of(run, ["0.0,001"], tmp_path)
    assert np.isnan(gaps["mean"]).tolist() == [False, True, True]
    assert float(gaps["mean"][0]) == float(alone["mean"][0])


def test_rows_that_lack_a_cell_of_the_formula_are_refused_or_left_out(patients, tmp_path):
    gap = tmp_path / "gap.csv"
    gap.write_text(patients.read_text() + "1.0,,001\n,0.5,002\n")
    given = ["model.formula=y ~ x + (1 | patient)", "data.held_out=0"]
    said = (
        r"gap.csv: expected values in all columns .* none of 'x' in line 50 .* none of 'y' in "
        r"line 51 .*missing=drop"
    )
    with pytest.raises(ValueError, match=said):
        load_data(load_config("glmm", given, str(gap)))
    data = load_data(load_config("glmm", [*given, "data.missing=drop"], str(gap)))
    whole = load_data(load_config("glmm", given, str(patients)))
    assert data.train.num_dropped == 2
    np.testing.assert_array_equal(data.train.y, whole.train.y)


# --- weights --------------------------------------------------------------------------------------
def test_a_score_counts_rows_by_their_weights(tmp_path, capsys):
    """A row of weight 2 is scored twice, one of weight 0 not at all; so is it under the law of the
    target alone."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=60)
    y = 2 + x + 0.5 * rng.normal(size=60)
    weights = rng.integers(0, 4, size=60)
    y[weights == 0] = 99.0
    rows = np.repeat(np.arange(60), weights)
    weighted = write_columns(tmp_path / "w.csv", y=y, x=x, w=weights)
    repeated = write_columns(tmp_path / "r.csv", y=y[rows], x=x[rows])
    numbers = {}
    for name, path, more in (("w", weighted, ["model.weights=w"]), ("r", repeated, [])):
        fit_columns(tmp_path / name, path, more)
        capsys.readouterr()
        assert main(["evaluate", str(tmp_path / name), "--data", path]) == 0
        said = capsys.readouterr().out
        assert f"({len(rows)} rows)" in said
        numbers[name] = [float(number) for number in re.findall(r"-\d+\.\d+", said)]
    assert len(numbers["w"]) >= 2  # the model, and the mean of the target
    np.testing.assert_allclose(numbers["w"], numbers["r"], atol=0.02)


@pytest.mark.parametrize(
    ("column", "said"),
    [({"w": -1}, "finite numbers that are not negative"), ({}, "expected a column 'w'")],
    ids=["negative", "none"],
)
def test_weights_of_a_table_to_score_are_checked(tmp_path, capsys, column, said):
    x, noise = np.random.default_rng(6).normal(size=(2, 30))
    path = write_columns(tmp_path / "w.csv", y=x + noise, x=x, w=np.ones(30, int))
    fit_columns(tmp_path / "run", path, ["model.weights=w"])
    more = {name: np.full(30, value) for name, value in column.items()}
    other = write_columns(tmp_path / "other.csv", y=x + noise, x=x, **more)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--data", other]) != 0
    assert said in capsys.readouterr().err


def fit_columns(folder, path, settings):
    command = ["fit", "glmm", "--data", path, "--out", str(folder), "--set", "model.formula=y ~ x"]
    assert main([*command, *QUICK, *settings]) == 0


def write_columns(path, **columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


# --- ordered categories ---------------------------------------------------------------------------
def test_text_as_an_ordered_response_needs_an_order(tmp_path):
    path = tmp_path / "r.csv"
    rows = [f"{('mid', 'zero', 'all')[i % 3]},{i % 7}" for i in range(42)]
    path.write_text("\n".join(["r,x", *rows]) + "\n")
    given = ["model.formula=r ~ x", "model.family=cumulative", "data.held_out=0"]
    with pytest.raises(ValueError, match="categories of 'r' in an order"):
        load_data(load_config("glmm", given, str(path)))
    order = 'model.order=["mid", "zero", "all"]'
    data = load_data(load_config("glmm", [*given, order], str(path)))
    np.testing.assert_array_equal(data.train.y, np.arange(42) % 3)
    assert "in the order mid, zero, all" in data.train.notes[-1]
