"""Autoencoders on the command line: what a run is, its score, its pictures, resuming, wrong
settings."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from vijax.app.catalogue.parts import networks
from vijax.app.cli import main
from vijax.app.folder.restored import restore
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.plan import Plan
from vijax.app.report.pages import read_run
from vijax.app.settings.units import table_units

BITS = """
[data]
path = "synthetic:binary"
num_rows = 120

[model]
name = "vae"
latent_dim = 2
image = [4, 4]
test_draws = 20
networks.hidden = [6]
observed.name = "bernoulli"

[fit]
batch_size = 36
checkpoint_every_s = 0
evaluate_every = 0
"""
BENT = """
[data]
path = "synthetic:bent"
num_rows = 100

[model]
name = "svae"
num_components = 3
latent_dim = 1
test_draws = 5
networks.hidden = [8]

[algorithm]
estep.num_sweeps = 2

[fit]
batch_size = 30
checkpoint_every_s = 0
evaluate_every = 0
"""
DOTS = """
[data]
path = "synthetic:dots"
num_rows = 400
group = "sequence"
held_out = 0.25
standardise = true

[model]
name = "dynamic_svae"
latent_dim = 2
num_states = 2
test_draws = 5
networks.hidden = [8]

[algorithm]
estep.num_sweeps = 2

[fit]
batch_size = 3
checkpoint_every_s = 0
evaluate_every = 0
"""
CONFIGS = {"vae": BITS, "svae": BENT, "dynamic_svae": DOTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    for name, text in CONFIGS.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def fit(folder, name, out, epochs, *more):
    return main(
        [
            "fit",
            str(folder / f"{name}.toml"),
            "--out",
            str(out),
            "--set",
            f"num_epochs={epochs}",
            *more,
        ]
    )


@pytest.fixture(scope="module")
def bits(folder, figures):
    with figures():
        assert fit(folder, "vae", folder / "bits", 4) == 0
    return folder / "bits"


def left(folder):
    with np.load(folder / "posterior.npz") as file:
        return {name: file[name].tobytes() for name in file.files}


def go_on(folder, out, name):
    """Half of the passes, and then the rest."""
    assert fit(folder, name, out, 2) == 0
    before = left(out)
    path = out / "config.toml"
    path.write_text(path.read_text().replace("num_epochs = 2", "num_epochs = 4"))
    assert main(["resume", str(out)]) == 0
    assert left(out) != before
    return left(out)


def test_an_autoencoder_is_resumed_bit_for_bit(folder, bits, tmp_path):
    found = go_on(folder, tmp_path / "run", "vae")
    assert found == left(bits)
    assert {"hyper/encoder/0/weights", "hyper/decoder/1/shifts"} <= set(found)


def test_a_structured_autoencoder_is_resumed_bit_for_bit_and_described(folder, tmp_path):
    assert fit(folder, "svae", tmp_path / "whole", 4) == 0
    found = go_on(folder, tmp_path / "run", "svae")
    assert found == left(tmp_path / "whole")
    assert {"weights/concentration", "hyper/decoder/log_sd"} <= set(found)
    titles = [block.title for block in read_run(tmp_path / "run").shown]
    assert titles == ["Networks", "Components", "Reconstructions", "Clusters", "Is it any good?"]


def test_an_autoencoder_of_sequences_is_resumed_bit_for_bit_described_and_continued(
    folder, tmp_path, capsys
):
    assert fit(folder, "dynamic_svae", tmp_path / "whole", 4) == 0
    assert go_on(folder, tmp_path / "run", "dynamic_svae") == left(tmp_path / "whole")
    shown = {block.title: block for block in read_run(tmp_path / "run").shown}
    # Sequence 0 is held out.
    of_states = [
        "States",
        "Transitions",
        "Dynamics",
        "Path of sequence 1",
        "Reconstructions",
        "Forecasts of sequence 1",
    ]
    assert list(shown) == ["Networks", *of_states, "Likeliest paths", "Is it any good?"]
    run = vi.load(tmp_path / "run")
    found = run.transform()
    table = load_data(run.config).train
    assert found["path"].shape == (400, 2)
    assert found["state"].dtype.kind == "i"
    rows = {row[0]: row[1:] for row in shown["Reconstructions"].rows}
    x = table_units(table).points(table.x)
    trained = np.isin(np.array(found["sequence"], float), [*map(float, table.group_names)])
    error = np.sqrt(np.mean((found["expected"][trained] - x) ** 2, axis=0))
    np.testing.assert_allclose(
        [rows[name] for name in table.columns], np.c_[x.std(0), error], rtol=1e-3
    )
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), "--steps", "2", "--draws", "50"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2 * 8
    assert (
        "nats per step (100 steps; a bound by 5"
        in json.loads((tmp_path / "run" / "result.json").read_text())["score_text"]
    )


def test_one_law_of_motion_takes_one_sweep():
    config = load_config("configs/dynamic_svae.toml", ["num_rows=100", "held_out=0"])
    algorithm = Plan(config, load_data(config)).algorithm
    assert algorithm.spec.estep.num_sweeps == 1


def test_images_are_rebuilt_drawn_anew_and_shown(bits, capsys):
    shown = {block.title: block for block in read_run(bits).shown}
    assert list(shown) == [
        "Networks",
        "Latents by what they say",
        "Reconstructions",
        "New images",
        "Latents",
        "Is it any good?",
    ]
    data, rebuilt = np.array(shown["Reconstructions"].images)
    assert data.shape == rebuilt.shape == (12, 16)
    assert set(np.unique(data)) == {0.0, 1.0}
    assert np.all((rebuilt > 0) & (rebuilt < 1))
    assert {"reconstructions.png", "new_images.png"} <= {
        path.name for path in (bits / "figures").iterdir()
    }
    assert '<path class="shade"' in (bits / "report.html").read_text()
    assert main(["summary", str(bits)]) == 0
    assert re.search(
        r"nats per row \(12 rows; a bound by 20 importance-weighted draws\)",
        capsys.readouterr().out,
    )


def test_the_latents_of_every_row_are_in_the_folder_and_of_new_rows(bits):
    lines = (bits / "transformed.csv").read_text().splitlines()
    config = load_config(bits / "config.toml")
    data = load_data(config)
    assert len(lines) == 1 + data.train.num_rows + data.test.num_rows
    assert lines[0].endswith("latent_0,latent_1,sd_0,sd_1")
    found = vi.load(bits).transform(data.test.x)
    seen = restore(bits, Plan(config, data))
    q = seen.fit.locals(networks.arrange(data.test, config.model), key=seen.key)["z"]
    np.testing.assert_allclose(found["latent"], q.mean(), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], q.std(), rtol=1e-5)


def test_the_score_is_the_bound_of_the_held_out_rows(bits):
    """By hand: encoder and decoder in NumPy, z on a grid of two dimensions: log p(x), which the
    bound nears."""
    config = load_config(bits / "config.toml")
    seen = restore(bits, Plan(config, load_data(config)))
    x = networks.arrange(seen.data.test, config.model)
    hyper = jax.tree.map(lambda a: np.asarray(a, float), seen.fit.state.hyper)

    def net(layers, h):
        for layer in layers[:-1]:
            h = np.tanh(h @ layer["weights"] + layer["shifts"])
        return h @ layers[-1]["weights"] + layers[-1]["shifts"]

    side = np.linspace(-6, 6, 121)
    z = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    logits = net(hyper["decoder"], z)
    fits = x @ logits.T - np.logaddexp(0, logits).sum(1)
    joint = fits - 0.5 * (z**2).sum(1) - np.log(2 * np.pi) + 2 * np.log(side[1] - side[0])
    top = joint.max(1)
    exact = np.log(np.exp(joint - top[:, None]).sum(1)) + top
    settings = dataclasses.replace(seen.settings, test_draws=2000)
    many = networks.score(seen._replace(settings=settings))
    assert many.mean == pytest.approx(exact.mean(), abs=0.02)
    mean, log_sd = np.split(net(hyper["encoder"], x), 2, axis=1)
    q = seen.fit.locals(x, key=jax.random.key(0))["z"]
    np.testing.assert_allclose(q.mean(), mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(q.variance(), np.exp(2 * log_sd), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "overrides", "said"),
    [
        (
            "vae",
            ["image=[3,4]"],
            r"model\.image: expected height and width of 16 columns in all, got \[3, 4\]",
        ),
        ("vae", ["image=[16]"], r"model\.image: expected \[height, width\], got \[16\]"),
        (
            "vae",
            ["hidden=[0]"],
            r"model\.networks\.hidden: expected units of at least 1, got \[0\]",
        ),
        (
            "vae",
            ["observed.sd=0.1"],
            r'model\.observed\.name is "bernoulli", which takes threshold',
        ),
        (
            "vae",
            ["algorithm.estep.num_sweeps=3"],
            r"algorithm\.estep\.num_sweeps: not a setting of model\.name = .vae., but of ",
        ),
        (
            "vae",
            ["estep.name=structured"],
            r'algorithm\.estep\.name: expected "amortised", got "structured"',
        ),
        ("vae", ["restarts=3"], r"fit\.restarts: expected 1 for networks"),
        ("vae", ["data.group=bit1"], r"data\.group: vae reads rows one by one"),
        ("vae", ["data.hold_out=entries"], r'data\.hold_out: expected "rows" for vae'),
        ("vae", ["learning_rate=0"], r"algorithm\.learning_rate: expected a positive number"),
        (
            "svae",
            ["observed.name=bernoulli"],
            r"model\.observed\.threshold: expected entries 0 and 1 .* in column 'x1'",
        ),
        ("svae", ["threshold=1"], r'model\.observed\.name is "gaussian", which takes sd'),
    ],
)
def test_wrong_settings_are_named(folder, name, overrides, said, tmp_path, capsys):
    assert fit(folder, name, tmp_path / "run", 1, *overrides) == 2
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_a_threshold_makes_bits_and_a_target_only_colours(folder, tmp_path):
    """Rows above it are ones; the column of labels is no part of a row."""
    rng = np.random.default_rng(0)
    rows = np.c_[rng.normal(size=(20, 2)), np.arange(20) % 3]
    np.savetxt(
        tmp_path / "rows.csv", rows, delimiter=",", header="a,b,kind", comments="", fmt="%.6g"
    )
    more = ["data.target=kind", "threshold=0.5", "image=[1,2]", "num_rows=none"]
    config = load_config(folder / "vae.toml", more, str(tmp_path / "rows.csv"))
    load_config(
        folder / "vae.toml", ["observed.name=gaussian", "threshold=none"]
    )  # unset, in so many words
    data = load_data(config)
    x = networks.arrange(data.train, config.model)
    assert data.names == ("a", "b")
    np.testing.assert_array_equal(x, data.train.x > 0.5)
    assert set(np.unique(data.train.y)) == {0, 1, 2}


def test_the_order_of_the_bound_is_a_setting(folder):
    """Of draws that are weighed against each other."""
    config = load_config(
        folder / "vae.toml", ["algorithm.estep.num_samples=5", "algorithm.estep.alpha=0"]
    )
    data = load_data(config)
    made = Plan(config, data).algorithm.spec.estep
    assert made == vi.estep.amortised(5, objective=vi.objective.importance_weighted())
    assert Plan(load_config(folder / "vae.toml"), data).algorithm.spec.estep == vi.estep.amortised()


def test_perceptrons_are_equal_by_value_and_start_from_their_seed():
    """So that a rebuilt model compiles nothing."""
    assert networks.Perceptron("relu") == networks.Perceptron("relu")
    one, same, other = (networks.first_layers([5, 4, 3], (seed, 0)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one[0]["weights"], same[0]["weights"])
    assert np.abs(one[0]["weights"] - other[0]["weights"]).max() > 0.1
    h = np.arange(5.0)
    by_hand = np.maximum(h @ one[0]["weights"], 0) @ one[1]["weights"]
    np.testing.assert_allclose(networks.Perceptron("relu")(one, jnp.asarray(h)), by_hand, rtol=1e-5)


def test_the_table_of_networks_counts_their_parameters(bits):
    table = json.loads((bits / "result.json").read_text())["blocks"][0]
    assert table["rows"] == [
        ["encoder", "16-6-4", str(16 * 6 + 6 + 6 * 4 + 4)],
        ["decoder", "2-6-16", str(2 * 6 + 6 + 6 * 16 + 16)],
    ]
