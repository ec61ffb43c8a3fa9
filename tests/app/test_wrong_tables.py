"""Tables that do not suit a model: one line that names file, key and remedy; and nothing is left
behind."""

from pathlib import Path

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.app.catalogue.state_space import Settings, score
from vijax.app.plan.config import ConfigError, load_config
from vijax.app.runs.run import start
from vijax.app.sources.listing import Data, FittedRun
from vijax.data.tables.table import Choice, Table, make_table

CONFIGS = Path(__file__).parents[2] / "configs"


def test_a_column_of_numbers_with_a_mistake_is_not_passed_over():
    found = {
        "a": np.arange(3.0),
        "b": np.array(["1", "oops", "3"], object),
        "name": np.array(["x", "y", "z"], object),
    }
    with pytest.raises(ValueError, match=naming("column 'b':", "'oops'", "1", "0")):
        make_table(found, Choice(), "a file")
    assert make_table({**found, "b": np.arange(3.0)}, Choice(), "a file").columns == ("a", "b")


@pytest.mark.parametrize("key", ["columns", "target", "group"])
def test_a_column_that_is_not_there_is_named_with_its_key(key):
    choice = Choice(**{key: ("nope",) if key == "columns" else "nope"})
    with pytest.raises(
        ValueError, match=rf"'nope' \(data.{key}\).*name another, data.{key}; known: 'a'"
    ):
        make_table({"a": np.arange(3.0)}, choice, "a file")


def test_no_columns_besides_the_target():
    with pytest.raises(ValueError, match="got none but target and group"):
        make_table({"y": np.arange(3.0)}, Choice(target="y"), "a file")


@pytest.mark.parametrize("name", ["hmm", "factorial_hmm", "state_space", "hierarchical_linear"])
def test_rows_of_a_single_group_cannot_be_held_out(name, tmp_path):
    text = (CONFIGS / f"{name}.toml").read_text().splitlines(keepends=True)
    (tmp_path / "own.toml").write_text(
        "".join(line for line in text if not line.startswith("group"))
    )
    with pytest.raises(ConfigError, match=r"data.group: .* data.held_out=0"):
        load_config(tmp_path / "own.toml")
    assert load_config(tmp_path / "own.toml", ("data.held_out=0",)).data.held_out == 0


@pytest.mark.parametrize("part", ["training", "held-out"])
def test_counts_are_checked_in_both_parts(part, tmp_path):
    rows = np.random.default_rng(0).poisson(3, (20, 2))
    order = np.random.default_rng(0).permutation(
        20
    )  # of data.split_seed = 0: the first are held out
    row = order[-1 if part == "training" else 0]
    rows[row, 1] = -1
    path = tmp_path / "counts.csv"
    np.savetxt(path, rows, "%d", ",", header="a,b", comments="")
    config = load_config(CONFIGS / "gap_nmf.toml", ("num_epochs=1",), str(path))
    with pytest.raises(
        ValueError,
        match=rf"counts.csv, .*expected counts 0, 1, 2.*-1.0 in line {row + 2}, column 'b'",
    ):
        start(config, tmp_path / "run", say=lambda message: None)
    assert not (tmp_path / "run").exists()


def test_held_out_entries_of_sequences_are_scored_given_the_others():
    """Against the dense Gaussian of each sequence, conditioned."""
    rng = np.random.default_rng(0)
    whole = np.cumsum(rng.normal(size=(12, 2)), axis=0)
    out = rng.random(whole.shape) < 0.3
    names = {"group": "g", "groups": np.repeat([0, 1], 6), "group_names": ("0", "1")}
    train, test = (
        Table(("a", "b"), np.where(hide, np.nan, whole), **names) for hide in (out, ~out)
    )
    model = vi.models.linear_gaussian_state_space(2, 1)
    fit = vi.fit(
        vi.cavi(model), vi.models.pad(train.sequences()), num_steps=3, key=jax.random.key(0)
    )
    mean, cov = dense_law(fit.posterior.mean(), 6)
    expected = sum(
        conditional(mean, cov, whole[rows].ravel(), out[rows].ravel())
        for rows in (slice(0, 6), slice(6, 12))
    )
    found = score(FittedRun(fit, Data(train, test), Settings(num_states=1), jax.random.key(1)))
    assert (found.number, found.per) == (int(out.sum()), "entry")
    np.testing.assert_allclose(found.mean, expected / out.sum(), rtol=1e-4)


def dense_law(point, steps):
    """Mean and covariance of the observations of a sequence with one state, at a point of the
    globals."""
    initial, dynamics, observation = (
        point[name] for name in ("initial", "dynamics", "observation")
    )
    m, p = float(initial.mean[0]), float(initial.precision[0])
    a, q = float(dynamics.coefficients[0, 0]), float(dynamics.precision[0])
    c, r = np.asarray(observation.coefficients, float), np.asarray(observation.precision, float)
    shocks = np.array(
        [[a ** (t - s) if s <= t else 0.0 for s in range(steps)] for t in range(steps)]
    )
    cov = shocks @ np.diag([1 / p] + [1 / q] * (steps - 1)) @ shocks.T
    mean = np.outer(m * a ** np.arange(steps), c[:, 0]) + c[:, 1]
    return mean.ravel(), np.kron(cov, np.outer(c[:, 0], c[:, 0])) + np.diag(np.tile(1 / r, steps))


def conditional(mean, cov, y, hidden):
    """log N of the hidden entries given the others."""
    gain = cov[np.ix_(hidden, ~hidden)] @ np.linalg.inv(cov[np.ix_(~hidden, ~hidden)])
    left = cov[np.ix_(hidden, hidden)] - gain @ cov[np.ix_(~hidden, hidden)]
    error = y[hidden] - mean[hidden] - gain @ (y - mean)[~hidden]
    return -0.5 * (error @ np.linalg.solve(left, error) + np.linalg.slogdet(2 * np.pi * left)[1])
