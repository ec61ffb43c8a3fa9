"""Recurrent switching linear dynamical systems: the augmented joint against the density that it
augments, and the bound against the log evidence, by all paths of states and quadrature of the
hidden path."""

import dataclasses
import functools
import itertools
import pickle

import jax
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.models.series import test_slds as plain
from vijax.families import CoefficientsPrecision
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.vector.matrix_normal_wishart import MatrixPrecision
from vijax.models.energies.energy import model_energy
from vijax.models.series import recurrent_start
from vijax.models.series.recurrent_start import after_slds

D, Q, K, A, T = 2, 2, 3, 0.6, 4
RNG = np.random.default_rng(0)
THETA = {
    "initial": np.array([0.2, 0.5, 0.3]),
    "switching": RNG.normal(size=(K - 1, Q + K)),
    "start": MeanPrecision(np.array([1.0, -0.5]), np.array([0.7, 2.0])),
    "dynamics": MatrixPrecision(
        0.5 * RNG.normal(size=(K, Q + 1, Q)), np.stack([np.diag([3.0, k + 1.0]) for k in range(K)])
    ),
    "observation": CoefficientsPrecision(RNG.normal(size=(D, Q + 1)), np.array([2.0, 4.0])),
}
Y, X = RNG.normal(size=(T, D)), RNG.normal(size=(T, Q))
KEY = jax.random.key(0)


@functools.cache
def model():
    with jax.enable_x64(True):
        return vi.models.recurrent_slds(D, K, Q, persistence=A)


def log_joint(z):
    """log p(y, x, z) by hand."""
    (m, p), (g, precision), (c, r) = THETA["start"], THETA["dynamics"], THETA["observation"]
    total = np.log(THETA["initial"][z[0]]) + stats.norm(m, 1 / np.sqrt(p)).logpdf(X[0]).sum()
    for t in range(1, T):
        psi = THETA["switching"] @ np.concatenate([X[t - 1], np.eye(K)[z[t - 1]]])
        yes = special.expit(psi)
        total += np.log(np.append(yes, 1.0) * np.append(1.0, np.cumprod(1 - yes)))[z[t]]
        mean = A * X[t - 1] + np.append(X[t - 1], 1.0) @ g[z[t]]
        total += stats.multivariate_normal(mean, np.linalg.inv(precision[z[t]])).logpdf(X[t])
    return total + stats.norm(X @ c[:, :-1].T + c[:, -1], 1 / np.sqrt(r)).logpdf(Y).sum()


@jax.jit
def bound_of_omega(z):
    """The bound at a path, at the best q of omega."""
    spec, group = model_energy(model()), (Y, np.ones(T, bool))
    point = model().prior({}).stats(THETA)
    templates = spec.locals(group)
    known = {"x": templates["x"].stats(X), "z": templates["z"].stats(z)}
    stats_ = {**point, **known, "omega": templates["omega"].expected_stats()}
    omega = spec.conditionals(("omega",), stats_, group, {})["omega"]
    mean = omega.expected_stats()
    return (
        spec.fn({**stats_, "omega": mean}, group, {})
        + (omega.log_normalizer() - omega.dot(mean)).sum()
    )


@pytest.mark.parametrize("z", [[0, 0, 1, 2], [2, 1, 0, 2], [1, 2, 2, 1]])
def test_omega_integrates_out(z):
    """At known paths the bound of omega is exact: sums of Polya-gamma laws are the stick-breaking
    probabilities."""
    with jax.enable_x64(True):
        model()  # made before anything is traced
        found = bound_of_omega(np.array(z))
    np.testing.assert_allclose(found, log_joint(z), rtol=1e-9)


# --- the evidence: as of an slds with inputs and gaps, in three states ----------------------------
KNOWN = {
    **{name: plain.THETA[name] for name in ("start", "observation")},
    "initial": THETA["initial"],
    "switching": 1.5 * RNG.normal(size=(K - 1, Q + K)),
    "dynamics": MatrixPrecision(
        0.5 * RNG.normal(size=(K, Q + plain.M + 1, Q)),
        np.stack([np.diag([3.0, k + 1.0]) for k in range(K)]),
    ),
}


def all_paths(steps):
    return np.array(list(itertools.product(range(K), repeat=steps)))


def log_switches(x, before, after):
    """log p(z_t = after | z_{t-1} = before, x_{t-1}) at rows x."""
    psi = x @ KNOWN["switching"][:, :Q].T + KNOWN["switching"][:, Q + before]
    yes = np.concatenate([special.expit(psi), np.ones((len(x), 1))], 1)
    return np.log(yes[:, after]) + np.log(1 - yes[:, :after]).sum(1)


def exact_evidence(y):
    """log p(y): given a path of states x is normal but for the switches, whose mean is by Gauss and
    Hermite."""
    (nodes, weights), size = np.polynomial.hermite_e.hermegauss(12), len(y) * Q
    chosen = np.array(list(itertools.product(range(12), repeat=size - Q)), int)
    grid, logs = nodes[chosen], np.log(weights / np.sqrt(2 * np.pi))[chosen].sum(1)
    found = []
    for z in all_paths(len(y)):
        value, slope, second = plain.quadratic(lambda x, z=z: plain.log_joint(KNOWN, y, z, x), size)
        mean, cov = np.linalg.solve(-second, slope), np.linalg.inv(-second)
        of_y = value + 0.5 * slope @ mean + 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
        x = mean[: size - Q] + grid @ np.linalg.cholesky(cov[: size - Q, : size - Q]).T
        switches = sum(
            log_switches(x[:, t * Q - Q : t * Q], z[t - 1], z[t]) for t in range(1, len(y))
        )
        found.append(np.log(KNOWN["initial"][z[0]]) + of_y + special.logsumexp(logs + switches))
    return special.logsumexp(found)


def augmented(y, z, omega, x):
    """log p(y, x, omega | z), the density of omega under PG(1, 0) left out."""
    total, regression = plain.log_joint(KNOWN, y, z, x), np.arange(K - 1)
    for t in range(1, len(y)):
        psi = KNOWN["switching"] @ np.concatenate([x[t * Q - Q : t * Q], np.eye(K)[z[t - 1]]])
        each = np.where(regression == z[t], 0.5, -0.5) * psi - np.log(2) - omega[t - 1] * psi**2 / 2
        total += each[regression <= z[t]].sum()
    return total


def test_the_bound_is_that_of_its_laws_and_below_the_evidence():
    """Sequences of 3, 2, 1 and 0 steps, entries missing, inputs: E[log p] + entropies summed over
    all paths, and the log evidence; each of the three laws is the best given the others."""
    with jax.enable_x64(True):
        estep = vi.estep.mean_field(400, 1e-11)
        of = vi.models.recurrent_slds(plain.D, K, Q, plain.M, persistence=A, estep=estep)
        y, mask = plain.DATA
        batch, known = (
            vi.Minibatch((np.where(mask[..., None], y, 1e3), mask), None),
            of.prior({}).stats(KNOWN),
        )
        said = jax.jit(lambda known, batch: of.local_elbo({}, known, batch, KEY, estep))(
            known, batch
        )
        values, local, probs = jax.tree.map(
            np.asarray, (said.per_group, said.local, said.local["z"].probs)
        )
    assert values[3] == 0.0
    for n, steps in enumerate(plain.LENGTHS[:3]):
        y, paths, tilt = (
            plain.Y[n, :steps],
            all_paths(steps),
            local["omega"].negative_half_square[n, : steps - 1],
        )
        c = np.sqrt(-2 * tilt)
        omega = np.tanh(c / 2) / (2 * c)
        mean, precision = plain.normal_of(local["x"], n, steps)
        cov = np.linalg.inv(precision)

        def expected(omega, y=y, paths=paths, mean=mean, cov=cov):
            terms = [
                plain.quadratic(lambda x, z=z: augmented(y, z, omega, x), mean.size) for z in paths
            ]
            return terms, np.array(
                [v + s @ mean + 0.5 * (mean @ h @ mean + np.sum(h * cov)) for v, s, h in terms]
            )

        terms, each = expected(omega)
        logs = np.log(KNOWN["initial"])[paths[:, 0]] + each
        weights = np.exp(logs - special.logsumexp(logs))  # the best q(z)
        entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1] - np.sum(
            np.log(np.cosh(c / 2)) + tilt * omega
        )
        np.testing.assert_allclose(values[n], special.logsumexp(logs) + entropy, rtol=1e-10)
        smoothed = np.stack([weights @ (paths == k) for k in range(K)], 1)
        np.testing.assert_allclose(probs[n, :steps], smoothed, rtol=1e-7)
        slope, second = (
            np.tensordot(weights, np.array([term[i] for term in terms]), 1) for i in (1, 2)
        )
        np.testing.assert_allclose(precision, -second, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(mean, np.linalg.solve(-second, slope), rtol=1e-6)
        way = RNG.normal(size=omega.shape)
        np.testing.assert_allclose(
            np.sum(tilt * way), weights @ (expected(omega + way)[1] - each), rtol=1e-7
        )
        exact = exact_evidence(y)
        assert exact - 1.0 < values[n] < exact + 1e-9
        assert steps == 1 or values[n] < exact - 0.1


def test_quadrature_of_the_evidence_agrees_with_sums_without_recurrence(monkeypatch):
    """Switches that do not depend on the path: the evidence is a sum of normals, with transitions
    as broken sticks."""
    after = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])
    yes = np.exp([after[:, 0], after[:, 1] - np.log1p(-np.exp(after[:, 0]))])
    monkeypatch.setitem(
        KNOWN, "switching", np.concatenate([np.zeros((2, Q)), special.logit(yes)], 1)
    )
    y, paths = plain.Y[0, :3], all_paths(3)
    terms = [plain.quadratic(lambda x, z=z: plain.log_joint(KNOWN, y, z, x), 3 * Q) for z in paths]
    prior = np.log(KNOWN["initial"])[paths[:, 0]] + after[paths[:, :-1], paths[:, 1:]].sum(1)
    np.testing.assert_allclose(exact_evidence(y), plain.evidence(prior, terms), rtol=1e-10)


def test_coordinate_ascent_never_loses_ground():
    """Entries missing, sequences short, nonsense in padding."""
    y = RNG.normal(size=(3, 8, D))
    y[0, 3, 0] = np.nan
    mask = np.arange(8) < np.array([8, 5, 1])[:, None]
    with jax.enable_x64(True):
        alg = vi.cavi(model())
        fit = vi.fit(alg, (np.where(mask[..., None], y, 1e3), mask), num_steps=15, key=KEY)
        same = vi.fit(alg, (np.where(mask[..., None], y, 0.0), mask), num_steps=15, key=KEY)
        ahead = np.asarray(fit.forecast(KEY, 3, (y, mask), 4))
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
    np.testing.assert_allclose(fit.trace["elbo"], same.trace["elbo"], rtol=1e-9)
    assert ahead.shape == (3, 3, 4, D)
    assert np.isfinite(ahead).all()


def test_one_state_is_refused():
    with pytest.raises(ValueError, match="num_states: expected two or more states"):
        vi.models.recurrent_slds(2, 1, 1)


def test_it_goes_on_where_an_slds_ended():
    data, key = vi.models.pad([np.sin(np.arange(40.0))[:, None]]), jax.random.key(0)
    first = vi.fit(vi.cavi(vi.models.slds(1, 2, 2)), data, num_steps=5, key=key)
    local = first.locals(data, key=key)
    begin, again = after_slds(local), pickle.loads(pickle.dumps(after_slds(local)))
    assert begin == again
    assert hash(begin) == hash(again)
    moved = {
        name: np.where(x == x.max(), x + 1, x) for name, x in begin.means["x"]._asdict().items()
    }
    assert begin != dataclasses.replace(
        begin, means={**begin.means, "x": type(begin.means["x"])(**moved)}
    )
    model = vi.models.recurrent_slds(1, 2, 2, init=begin)
    assert model is vi.models.recurrent_slds(1, 2, 2, init=again)
    fit = vi.fit(vi.cavi(model), data, num_steps=5, key=key)
    assert fit.trace["elbo"][-1] > fit.trace["elbo"][0]


def test_by_itself_it_begins_where_coordinate_ascent_of_an_slds_comes_to(monkeypatch):
    monkeypatch.setattr(recurrent_start, "ROUNDS", 5)
    rng, key = np.random.default_rng(0), jax.random.key(0)
    data = vi.models.pad([rng.normal(size=(n, 2)).cumsum(0) for n in (30, 22)])
    with jax.enable_x64():
        first = vi.models.slds(2, 2, 2, stickiness=5.0)
        found = (
            vi.cavi(vi.models.recurrent_slds(2, 2, 2)).init(key, vi.Minibatch(data, None)).posterior
        )
        alg, batch = vi.cavi(first), vi.Minibatch(data, None)
        state = alg.init(
            jax.random.split(key)[0], batch
        )  # by the first of the two keys of the start
        for _ in range(recurrent_start.ROUNDS):
            state, _ = alg.step(key, state, batch)
        start = after_slds(state.local)
        expected = vi.cavi(vi.models.recurrent_slds(2, 2, 2, init=start)).init(key, batch).posterior
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8), found, expected
    )
