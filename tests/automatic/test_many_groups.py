"""Densities of many groups: in blocks, at once from a sample on, and in passes over minibatches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import special

import vijax as vi
from vijax.automatic import assessment, many_groups
from vijax.automatic.gaussian import Gaussian
from vijax.automatic.many_groups import by_passes, draw_sample, fit_all
from vijax.verdict import target as target_module
from vijax.verdict.report import Ended
from vijax.verdict.target import MANY_ROWS, Target
from vijax.xla.compiler import training_jit

KEY = jax.random.key(0)


def logistic(size, dim=3, seed=0):
    """A logistic regression, its data, and its mode and curvature there in float64."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, dim)).astype(np.float32)
    y = (rng.uniform(size=size) < special.expit(x @ np.linspace(-1.0, 1.0, dim))).astype(np.float32)

    def log_lik(v, row):
        logit = row["x"] @ v["w"]
        return row["y"] * logit - jnp.logaddexp(0.0, logit)

    model = vi.density(
        {"w": vi.free(dim)}, log_prior=lambda v: norm.logpdf(v["w"], 0, 2.0).sum(), log_lik=log_lik
    )
    mode, wide = np.zeros(dim), x.astype(np.float64)
    for _ in range(20):
        p = special.expit(wide @ mode)
        hessian = (wide * (p * (1 - p))[:, None]).T @ wide + np.eye(dim) / 4
        mode = mode + np.linalg.solve(hessian, wide.T @ (y - p) - mode / 4)
    return model, {"x": x, "y": y}, mode, hessian


@pytest.mark.parametrize(
    ("size", "blocks", "dear"), [(MANY_ROWS + 123, 24, False), (MANY_ROWS, 25, True)]
)
def test_blocks_of_groups_sum_to_the_density_and_lose_less_to_rounding(
    size, blocks, dear, monkeypatch
):
    """With a rest, and without; gradients with fusion emitters, as of more blocks, and without."""
    emitted: list = []
    monkeypatch.setattr(target_module, "DEAR_BLOCKS", 25)
    monkeypatch.setattr(
        target_module, "training_jit", lambda fn: emitted.append(fn) or training_jit(fn)
    )
    model, data, mode, _ = logistic(size)
    target = Target.from_data(model, data)
    assert target.epsilon == np.finfo(np.float32).eps / np.sqrt(blocks)
    x = mode + np.array([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1], [-1.0, 0.5, 2.0]])
    logits = data["x"].astype(np.float64) @ np.float32(x).astype(np.float64).T
    liks = (data["y"][:, None] * logits - np.logaddexp(0, logits)).sum(0)
    expected = liks - 0.125 * (x**2).sum(1) - 3 * np.log(2 * np.sqrt(2 * np.pi))
    slopes = (data["y"][:, None] - special.expit(logits)).T @ data["x"].astype(np.float64) - x / 4
    values, found = target.slopes(x)
    np.testing.assert_allclose(values, expected, rtol=3 * target.epsilon)
    np.testing.assert_allclose(found, slopes, atol=0.01)
    np.testing.assert_allclose(target.values(x[:1]), expected[:1], rtol=3 * target.epsilon)
    curved = special.expit(logits[:, 0]) * special.expit(-logits[:, 0])
    wide = data["x"].astype(np.float64)
    np.testing.assert_allclose(
        target.hessians(x[:1])[0], -(wide * curved[:, None]).T @ wide - np.eye(3) / 4, rtol=1e-4
    )
    assert len(emitted) == dear  # the program of gradients, none of values


def test_many_groups_take_few_gradients_and_no_mode_is_seen_twice():
    """The mode of a sample is some deviations from that of all groups: once it counted as another
    mode."""
    model, data, mode, hessian = logistic(MANY_ROWS + 123)
    check_many(model, data, mode, hessian)


def test_groups_of_many_rows_are_many_too():
    """The same rows, 40 to a group: what counts is what a gradient costs."""
    _, data, mode, hessian = logistic(MANY_ROWS)

    def log_lik(v, rows):
        logit = rows["x"] @ v["w"]
        return jnp.sum(rows["y"] * logit - jnp.logaddexp(0.0, logit))

    model = vi.density(
        {"w": vi.free(3)}, log_prior=lambda v: norm.logpdf(v["w"], 0, 2.0).sum(), log_lik=log_lik
    )
    grouped = {name: x.reshape(-1, 40, *x.shape[1:]) for name, x in data.items()}
    assert len(draw_sample(grouped, 3, 0).data["y"]) == 60  # 20 a variable
    assert len(draw_sample(grouped, 1, 0).data["y"]) == 50  # 2,000 rows
    check_many(model, grouped, mode, hessian)


def check_many(model, data, mode, hessian):
    fit = vi.auto(model, data, key=KEY)
    assert fit.report.num_gradients < 800, fit.report.num_gradients
    assert [one.num_starts for one in fit.modes] == [16]
    assert fit.verdict.startswith("Converged. q is close to the posterior")
    assert "none was found by searches from 16 starts" in fit.verdict
    assert len(fit.report.log_ratios) == assessment.FEW_CHECKS
    frame = fit.state.hyper["frame"]
    sds = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert np.abs((frame.shift - mode) / sds).max() < 0.02  # the mean is not quite the mode
    covariance = np.asarray(frame.scale @ frame.scale.T, np.float64)
    np.testing.assert_allclose(covariance @ hessian, np.eye(3), atol=0.005)


def test_starts_are_looked_at_together_and_no_label_is_looked_for_in_vain(monkeypatch):
    """All ways from the starts to the first mode are one call. Entries of one variable of 13 are no
    labels."""
    model, data, *_ = logistic(MANY_ROWS, dim=13)
    asked: list[int] = []
    values = Target.values
    count = lambda self, x: asked.append(len(x)) if self.num_groups == MANY_ROWS else None
    monkeypatch.setattr(Target, "values", lambda self, x: (count(self, x), values(self, x))[1])
    vi.auto(model, data, key=KEY)
    starts, ways, bound = 1 + many_groups.DRAWS, many_groups.DRAWS * len(many_groups.BETWEEN), 32
    assert asked == [starts, ways, bound, assessment.FEW_CHECKS]


@pytest.mark.parametrize("slope", [0.04, 0.3])
def test_two_modes_of_many_groups_are_both_found(slope):
    """The sign of w is not known: q describes one of two equal modes. By the smaller slope a sample
    does not tell them apart."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=MANY_ROWS).astype(np.float32)
    y = (slope * x + rng.normal(size=len(x))).astype(np.float32)
    fit = vi.auto(SQUARE, (x, y), key=KEY)
    assert fit.report.others.others == 1
    np.testing.assert_allclose(fit.report.others.share, 0.5, atol=0.1)
    found = np.sort([one.values["w"] for one in fit.modes])
    np.testing.assert_allclose(found, np.sqrt(x @ y / (x @ x)) * np.array([-1, 1]), atol=0.002)


SQUARE = vi.density(
    {"w": vi.free()},
    log_prior=lambda v: norm.logpdf(v["w"], 0, 1),
    log_lik=lambda v, row: norm.logpdf(row[1], v["w"] ** 2 * row[0], 1),
)


def test_minibatches_follow_where_draws_at_once_do_not_settle(monkeypatch):
    monkeypatch.setattr(many_groups, "AT_ONCE_LIMIT", 0)
    model, data, mode, hessian = logistic(MANY_ROWS + 123)
    fit = vi.auto(model, data, key=KEY)
    assert "limit of" not in fit.verdict
    assert len(fit.trace["elbo"]) > 1000  # steps of minibatches
    sds = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert np.abs((np.asarray(fit.state.hyper["frame"].shift) - mode) / sds).max() < 0.15


def test_a_sample_stands_for_all_groups():
    data = np.arange(10_000.0)
    found = draw_sample(data, 3, 0)
    assert len(np.unique(found.data)) == 2000
    assert found.scale == 5.0
    np.testing.assert_allclose(found.scale * found.data.sum(), data.sum(), rtol=0.05)


def test_a_pass_weighs_its_batches_alike():
    """lambda = (c lambda_before + mean of the messages) / (c + 1), c = 2 at first: the module says
    so."""
    steps, messages = 5, np.array([3.0, -1.0, 2.0, 7.0, 4.0])
    q = before = 10.0
    for t, message in enumerate(messages):
        rho = float(by_passes(steps)(t))
        q = (1 - rho) * q + rho * message
    np.testing.assert_allclose(q, (2 * before + messages.mean()) / 3, rtol=1e-6)


def test_passes_over_minibatches_end_at_the_posterior_wherever_the_frame_is():
    """A linear regression, whose posterior is normal, from a frame that is two deviations off and
    turned."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1200, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
    y = x @ np.array([1.5, -0.7]) + rng.normal(size=1200)
    prior = lambda v: -0.5 * (v["w"] ** 2).sum()
    likelihood = lambda v, row: -0.5 * (row["y"] - row["x"] @ v["w"]) ** 2
    model = vi.density({"w": vi.free((2,))}, log_prior=prior, log_lik=likelihood)
    precision = np.eye(2) + x.T @ x
    mean, sds = np.linalg.solve(precision, x.T @ y), np.sqrt(np.diag(np.linalg.inv(precision)))
    begin = Gaussian(mean + 2 * sds, np.linalg.cholesky(np.diag(1.5 * sds**2)), -np.inf)
    data = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    found = fit_all(model, data, begin, 100, jax.random.key(0))
    assert found.ended is Ended.CONVERGED
    np.testing.assert_allclose(found.mean, mean, atol=0.05 * sds.min())
    np.testing.assert_allclose(found.scale @ found.scale.T @ precision, np.eye(2), atol=0.05)
