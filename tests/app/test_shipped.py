"""Configurations by name from anywhere, and configurations written after a look at the data."""

import csv
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")

import vijax as vi
from tests.naming import check_names, naming
from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.initial import initial_text
from vijax.app.settings.guide import GUIDE
from vijax.app.settings.toml_source import STAND_INS, find_config, shipped_configs
from vijax.app.settings.typed_toml import ConfigError

ROOT = Path(__file__).parents[2]


def test_every_model_is_a_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in LISTINGS:
        assert load_config(name).model.name == name
    assert load_config("gmm_em").algorithm.name == "em"
    assert find_config("configs/hmm.toml") == shipped_configs()["hmm"]  # as in a clone


def test_a_file_of_the_user_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lda.toml").write_text("[model]\nnum_topics = 3\n")
    assert load_config("lda.toml").model.num_topics == 3
    Path("lda").mkdir()
    assert find_config("lda").name == "lda_docstrings.toml"


@pytest.mark.parametrize(
    ("given", "fragments"),
    [
        ("gmm_ful", ["no such file", "did you mean gmm_full?", "`vijax configs`"]),
        ("mine/lda.toml", ["mine/lda.toml: there is no such file"]),
        ("zzz.toml", ["zzz.toml: there is no such file"]),
    ],
)
def test_a_name_that_is_none_is_an_error(given, fragments, capsys):
    assert main(["fit", given]) == 2
    message = capsys.readouterr().err
    for fragment in fragments:
        assert fragment in message


def test_the_wheel_has_them():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    assert wheel["force-include"] == {"configs": "vijax/configs"}
    assert set(STAND_INS) <= set(LISTINGS)
    assert set(STAND_INS.values()) <= set(shipped_configs())


def test_help_names_nothing_that_is_not_there(capsys):
    assert "configs/" not in GUIDE
    commands = re.findall(r"vijax (?:fit|init) (\w+)(?= |\n)", GUIDE)
    assert "lda" in commands
    for name in commands:
        find_config(name)
    assert main(["configs"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"^{name} ", listed, re.MULTILINE) for name in shipped_configs())


# --- init -----------------------------------------------------------------------------------------
@pytest.fixture
def table(tmp_path, monkeypatch):
    """Pupils: numbers of several scales, an identifier, classes, counts and gaps."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with Path("pupils.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "school", "hours", "days", "passed", "visits", "gap"])
        for i in range(60):
            hours, days = rng.normal(), int(5000 + 300 * rng.normal())
            passed, gap = "yes" if hours > 0 else "no", "" if i % 7 == 0 else round(rng.normal(), 2)
            writer.writerow(
                [1000 + i, f"s{i % 5}", round(hours, 3), days, passed, rng.poisson(3), gap]
            )
    return "pupils.csv"


def written(model, data, *more):
    assert main(["init", model, "--data", data, *more]) == 0
    path = more[1] if more else f"{Path(data).stem}_{model}.toml"
    config = load_config(path)
    load_data(config)  # it can be read so
    return config, Path(path).read_text()


def test_a_table_is_looked_at(table):
    config, text = written("mixture", table)
    assert config.data.columns == ("hours", "days", "visits", "gap")
    assert config.data.missing == "model"
    assert "# 9 of 60 rows lack a cell, and count by the others." in text
    assert config.data.standardise
    assert config.model.emission.name == "full_gaussian"
    assert "#   gap: numbers from " in text
    assert (
        "# Left out: id: identifies the rows; school: text, 5 different; passed: text, 2 different."
        in text
    )


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("logistic_regression", "passed"),
        ("glm", "visits"),
        ("ard_regression", "visits"),
        ("gp", "passed"),
    ],
)
def test_a_target_of_the_kind_of_the_model_is_named(model, target, table):
    config, _ = written(model, table)
    assert config.data.target == target
    assert target not in config.data.columns


def test_a_formula_reads_each_column_as_what_it_is(tmp_path, monkeypatch, capsys):
    """Numbers with text among them are categories where they are few; a response is known by its
    name."""
    monkeypatch.chdir(tmp_path)
    kids = ["0", "1", "2", "3+"]
    row = lambda i: (
        f"{'NY'[i % 3 > 1]},{kids[i * 7 % 4]},{i % 7}.5,2024-01-{i % 28 + 1:02},{i * 7 % 11 or 'x'},{i}"
    )
    rows = map(row, range(60))
    Path("p.csv").write_text("churn,livch,age,day,odd,id\n" + "\n".join(rows))
    assert main(["init", "glmm", "--data", "p.csv"]) == 0
    config = load_config("p_glmm.toml")
    assert config.model.formula == "churn ~ C(livch) + age"
    text = Path("p_glmm.toml").read_text()
    assert "Left out: 'day', 'odd', 'id'." in text
    assert vi.glmm(config.model.formula, "p.csv").law.name == "bernoulli"


def test_a_formula_is_proposed(tmp_path, monkeypatch):
    """For names of any letters; texts of few kinds are terms, those of many name groups."""
    monkeypatch.chdir(tmp_path)
    rows = [f"r{i};{i * i % 7},5;{'xy'[i % 2]};g{i % 9};{i % 5},25" for i in range(40)]
    Path("p.csv").write_text("Nr;Fläche (m²);Lage;Ort;Preis (T€)\n" + "\n".join(rows))
    assert main(["init", "glmm", "--data", "p.csv"]) == 0
    config = load_config("p_glmm.toml")
    assert config.model.formula == "`Preis (T€)` ~ `Fläche (m²)` + Lage + (1 | Ort)"
    data = load_data(config)  # with a response in held-out rows too
    assert len(data.train.y) + len(data.test.y) == 40
    config = load_config("p_glmm.toml", ['model.priors=["1|Ort_sigma: half_normal 2"]'])
    assert config.listing.build(config.model, data).priors["1|Ort_sigma"] == ("half_normal", 2.0)
    config = load_config("p_glmm.toml", ['model.priors=["Ort_sigma: half_normal 2"]'])
    with pytest.raises(ConfigError, match=naming("model.priors:", "'Intercept'")):
        config.listing.build(config.model, data)
    Path("p.csv").write_text(
        "Nr;Fläche (m²);Lage;Ort;Preis (T€)\n" + "\n".join([*rows, "r;;x;g1;3,25"])
    )
    with pytest.raises(
        ValueError,
        match=naming("'Fläche (m²)'", "42", "1"),
    ):
        load_data(config)  # though rows are held out at random


def test_groups_and_missing_entries_are_for_models_that_have_them(table):
    assert written("hierarchical_regression", table)[0].data.group == "school"
    assert "gap" in written("factor_analysis", table)[0].data.columns
    assert written("vae", table)[0].model.observed.name == "gaussian"


def test_documents_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [a + b + "an" for a in "bdfglm" for b in ("i", "or", "ul", "ek", "at")]
    texts = [" ".join(np.random.default_rng(i).choice(words, 9)) for i in range(60)]
    rows = [{"n": i, "review": text, "kind": "a b"} for i, text in enumerate(texts)]
    Path("r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config, text = written("lda", "r.jsonl", "--out", "mine.toml")
    assert config.data.column == "review"
    assert (config.model.num_topics, config.fit.batch_size) == (5, 10)
    assert config.fit.num_epochs * 60 / config.fit.batch_size >= 200
    assert "# 60 documents of 9 words on average that are kept, of 30 kinds." in text
    check_names(text, "'n'", "'kind'")


def test_a_graph_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pairs = [sorted(rng.choice(12, 2, replace=False)) for _ in range(30)]
    Path("links.csv").write_text("from,to\n" + "".join(f"a{i},a{j}\n" for i, j in pairs))
    config, _ = written("stochastic_block_model", "links.csv")
    assert (config.data.source, config.data.target) == ("from", "to")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["mixtur"], ["mixtur", "did you mean mixture?"]),
        (["mixture", "--out", "pupils.csv"], ["pupils.csv exists"]),
        (["mixture", "--out", "new.txt"], [".toml", "new.txt"]),
        (["lda"], ["no column holds text"]),
        (["density"], ["a Python file of yours", "vijax fit density"]),
        (
            ["gap_nmf"],
            [
                "pupils.csv does not suit gap_nmf",
                "expected counts 0, 1, 2",
                "no configuration is written",
            ],
        ),
    ],
)
def test_what_cannot_be_begun_is_an_error(arguments, fragments, table, capsys):
    if arguments == ["lda"]:
        Path(table).write_text("a,b\n1,2\n3,4\n5,6\n")
    assert main(["init", *arguments, "--data", table]) == 2
    message = capsys.readouterr().err
    for fragment in fragments:
        assert fragment in message
    assert not list(Path().glob("pupils_*.toml"))


def test_a_table_without_the_target_that_a_model_needs_says_what_there_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("a,b\n1.5,2\n2.5,4\n3.5,6\n")
    with pytest.raises(
        ConfigError,
        match=r"predicts a column of two classes, and there is none: a: numbers from 1\.5",
    ):
        initial_text("logistic_regression", "x.csv")


def test_what_the_user_knows_already_is_said_to_init(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i / 7:.2f};{i % 3};{i * i / 9:.1f}\n".replace(".", ",") for i in range(60))
    Path("g.csv").write_text("a;zahl;b\n" + rows)
    given = [
        "data.target=a",
        "name=versuch",
        "model.likelihood.name=gaussian",
        "fit.num_epochs=7",
        "separator=;",
        "held_out=0",
    ]
    assert main(["init", "glm", "--data", "g.csv", "--set", *given]) == 0
    config = load_config("g_glm.toml")
    assert (config.data.target, config.data.columns, config.data.separator) == (
        "a",
        ("zahl", "b"),
        ";",
    )
    assert (config.name, config.fit.num_epochs, config.model.likelihood.name) == (
        "versuch",
        7,
        "gaussian",
    )
    np.testing.assert_allclose(load_data(config).train.y, np.arange(60) / 7, atol=0.005)
    text = Path("g_glm.toml").read_text()
    check_names(text, "'a'", "'b'", "'0,00'")
    for wrong, message in {
        "data.target=c": "--set data.target: g.csv has no column 'c'; known: 'a', 'zahl', 'b'",
        "data.columns=['x']": "--set data.columns: g.csv has no column 'x'",
        "data.path=h.csv": "--set data.path: name the data after --data",
        "model.name=lda": "--set model.name: name the model in its place",
        "data.colour=1": "unknown key 'data.colour'",
    }.items():
        assert main(["init", "glm", "--data", "g.csv", "--out", "new.toml", "--set", wrong]) == 2
        assert message in capsys.readouterr().err
        assert not Path("new.toml").exists()


def test_topics_to_begin_with_are_few_enough_to_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = np.array(
        [a + b + c for a in "bdfglm" for b in "aeiou" for c in ("nan", "tat", "rir", "sus")]
    )
    Path("t.txt").write_text(
        "\n".join(" ".join(words[rng.integers(120, size=44)]) for _ in range(5655))
    )
    config, text = written("lda", "t.txt")
    assert config.model.num_topics == 15
    assert "Few enough to read" in text
