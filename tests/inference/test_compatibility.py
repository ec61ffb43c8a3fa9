"""Choices made for each global by name: what is sought, how its message is estimated, how it
moves."""

import dataclasses
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize, special

import vijax as vi
from tests.estimators import ESTIMATORS
from vijax.contract import describe
from vijax.models.energies.density import with_guide

KEY = jax.random.key(0)
Y = jnp.asarray(np.random.default_rng(0).normal(3.0, 2.0, 40), jnp.float32)


def normal_model(**choices):
    """y ~ N(mean, 1 / precision), both unknown and independent a priori: conjugate one given the
    other."""

    def energy(s, y):
        square = y**2 - 2 * y * s["mean"].value + s["mean"].square
        return 0.5 * (s["precision"].log - s["precision"].value * square - jnp.log(2 * jnp.pi))

    return vi.energy_model(
        globals={
            "mean": vi.Normal.from_mean_variance(0.0, 10.0),
            "precision": vi.Gamma.from_shape_rate(2.0, 1.0),
        },
        energy=energy,
        example=0.5,
        **choices,
    )


MODEL = normal_model()
ADAM = optax.adam(
    optax.cosine_decay_schedule(0.1, 1500), b2=0.9
)  # the first gradients are huge: forget them soon


def numbers(q):
    return np.array(
        [q["mean"].mean(), q["mean"].variance(), q["precision"].shape, q["precision"].rate], float
    )


@pytest.fixture(scope="module")
def optimum():
    """Coordinate ascent by hand, from the textbook's conditionals (Blei, Kucukelbir and McAuliffe
    2017, eq. 17)."""
    y, m, v, shape, rate = np.asarray(Y, float), 0.0, 1.0, 2.0 + len(Y) / 2, 1.0
    for _ in range(200):
        rate = 1.0 + 0.5 * np.sum((y - m) ** 2 + v)
        precision = 0.1 + len(y) * shape / rate
        m, v = shape / rate * y.sum() / precision, 1 / precision
    return np.array([m, v, shape, rate])


SMALL = vi.step_size.constant(0.3)
UPDATES = {
    "kl": (vi.update.kl(), {}),
    "within": (vi.update.within(0.5), {}),
    "floored": (vi.update.floored(), {}),
    "shrinkage": (vi.update.shrinkage(), {}),
    "mirror": (vi.update.mirror(), {"step_size": SMALL}),
    "symmetric_kl": (vi.update.symmetric_kl(), {"step_size": SMALL}),
    "proximal": (vi.update.proximal(vi.update.kl.solve), {"step_size": SMALL}),
    "descend": (vi.update.descend(ADAM), {}),
}
"""A new update is one row: itself, and what else its algorithm needs."""
MIXED = {
    "descend beside kl": {"update": {"mean": vi.update.descend(ADAM)}},
    "mirror beside kl": {
        "update": {"mean": vi.update.mirror(), "precision": vi.update.kl()},
        "step_size": SMALL,
    },
    "backtracking": {"step_size": vi.step_size.backtracking()},
}


def test_the_registry_has_every_update():
    """Those of sites are checked where there are any (tests/inference/test_pg_svi.py); plain
    gradients in natural parameters would never arrive here, and solve their own problem in
    tests/inference/test_divergences.py; `reflected` has no optimum
    (tests/inference/test_sgrld.py)."""
    exported = {
        x
        for x in vars(vi.update).values()
        if isinstance(x, type) and issubclass(x, vi.update.Update)
    }
    others = {
        vi.update.Update,
        vi.update.block,
        vi.update.exact_mean,
        vi.update.euclidean,
        vi.update.reflected,
    }
    assert exported - others == {type(update) for update, _ in UPDATES.values()}


@pytest.mark.parametrize("name", [*UPDATES, *MIXED])
def test_every_update_ends_at_the_optimum(name, optimum):
    choices = MIXED.get(name) or {"update": UPDATES[name][0], **UPDATES[name][1]}
    fit = vi.fit(vi.cavi(MODEL, **choices), Y, num_steps=1500, key=KEY)
    np.testing.assert_allclose(numbers(fit.posterior), optimum, rtol=3e-4)
    assert fit.num_skipped == 0


def test_backtracking_never_lowers_the_bound_and_says_how_often_it_tried():
    """From a start far off: with a whole step of both globals at once, the first one overshoots."""
    alg = vi.cavi(MODEL, step_size=vi.step_size.backtracking(0.99), blocks=None)
    fit = vi.fit(alg, Y, num_steps=60, key=KEY)
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-5 * np.abs(fit.trace["elbo"][1:]))
    assert np.all(fit.trace["step_size"] > 0)
    small = vi.cavi(MODEL, step_size=vi.step_size.backtracking(0.99, max_nats=0.01), blocks=None)
    state, info = jax.jit(small.step)(KEY, small.init(KEY), Y)
    assert int(info.backtracks) > 0
    assert 0.001 < float(state.posterior.kl(small.init(KEY).posterior)) <= 0.01


TRUSTED = vi.step_size.backtracking(0.6, shrink=0.4, max_nats=0.02)
MEAN, FAR, NEAR = (
    vi.Normal.from_mean_variance(0.0, 1.0),
    np.float32([80.0, -15.0]),
    np.float32([0.1, -0.05]),
)
"""A mean, and messages of observations of it: of 30 far off, and next to nothing."""


@functools.cache
def of_three_means():
    """Which have nothing to do with each other, each a block by itself."""
    said = lambda mean, y: y[:, 0] * mean.value + y[:, 1] * mean.square
    bound = lambda s, y, key: (sum(said(s[name], y[name]) for name in "abc"), None)
    model = vi.model(dict.fromkeys("abc", MEAN), bound)
    alg = vi.cavi(dataclasses.replace(model, blocks=(("a",), ("b",), ("c",))), step_size=TRUSTED)
    state, step = alg.init(KEY), jax.jit(alg.step)
    return lambda data: step(KEY, state, data)


def tried(message):
    """The natural parameters of a mean after its first trial that stays in the trust region, its
    beta, and how many did not: of an exact target no size lowers the bound."""
    start = np.array(jax.tree.leaves(MEAN))
    for refused in range(10):
        beta = 1.5 * 0.4**refused
        new = start + beta / (1 + beta) * message
        if MEAN.with_naturals(list(map(jnp.float32, new))).kl(MEAN) <= 0.02:
            return new, beta, refused
    raise AssertionError


@pytest.mark.parametrize("second", [FAR, NEAR], ids=["one is cut back", "none is"])
def test_of_blocks_each_has_its_own_size_and_the_least_is_gone_on_from(second):
    """Trials refused are added up; the next search begins at the least size, be it the first
    block's, the last one's or another's, and higher only where no block had a trial refused."""
    for messages in ((NEAR, second, NEAR), (second, NEAR, NEAR), (NEAR, NEAR, second)):
        data = dict(zip("abc", messages, strict=True))
        state, info = of_three_means()({name: message[None] for name, message in data.items()})
        expected = {name: tried(message) for name, message in data.items()}
        for name, (new, _, _) in expected.items():
            np.testing.assert_allclose(jax.tree.leaves(state.posterior[name]), new, rtol=1e-5)
        refused = sum(count for _, _, count in expected.values())
        assert (refused > 1) == (second is FAR)
        assert int(info.backtracks) == refused
        least = min(beta for _, beta, _ in expected.values())
        np.testing.assert_allclose(info.step_size / (1 - info.step_size), least, rtol=1e-5)
        grown = 1 if refused else TRUSTED.grow
        np.testing.assert_allclose(
            state.step_size / (1 - state.step_size), grown * least, rtol=1e-5
        )


def test_no_step_leaves_its_trust_region():
    alg = vi.cavi(MODEL, update=vi.update.within(0.05))
    state, step = alg.init(KEY), jax.jit(alg.step)
    for _ in range(5):
        new, _ = step(KEY, state, Y)
        moved = [
            float(new.posterior[name].kl(state.posterior[name])) for name in ("mean", "precision")
        ]
        assert max(moved) <= 0.05 * 1.0001
        assert max(moved) > 0.005
        state = new


def test_a_mode_beside_a_distribution():
    """Variational EM: the precision at its mode on the mean-value scale, found by SciPy from the
    bound by hand."""
    fit = vi.fit(
        vi.cavi(MODEL, estimand={"precision": vi.estimand.mode()}), Y, num_steps=60, key=KEY
    )
    y = np.asarray(Y, float)

    def negative_bound(log_precision):
        t = np.exp(log_precision)
        v = 1 / (0.1 + len(y) * t)
        m = t * y.sum() * v
        # log p(y | t) of a normal with a normal prior on its mean, and the log prior of t at the
        # point
        evidence = 0.5 * (len(y) * log_precision + np.log(0.1 * v) - t * np.sum(y**2) + m**2 / v)
        return -(evidence + (2.0 - 1.0) * log_precision - t)

    best = np.exp(
        optimize.minimize_scalar(
            negative_bound, bounds=(-4, 4), method="bounded", options={"xatol": 1e-10}
        ).x
    )
    np.testing.assert_allclose(fit.estimates["precision"].mean(), best, rtol=1e-4)
    assert fit.estimates["mean"].variance() > 0


def test_structured_svi_with_points(optimum):
    """One global at a draw, times V, the other at its mode."""
    alg = vi.whole(
        vi.ssvi(
            MODEL,
            damping=1.0,
            step_size=vi.step_size.robbins_monro(0.5),
            estimand={"precision": vi.estimand.mode()},
        )
    )
    fit = vi.fit(alg, Y, num_steps=400, key=KEY)
    assert fit.alg.spec.is_point("precision")
    np.testing.assert_allclose(float(fit.posterior["mean"].mean()), optimum[0], rtol=0.02)


def test_estimators_are_mixed_in_one_step(optimum):
    """The mean at draws, by the score function, the precision at its expected statistics."""
    estimator = {"mean": vi.estimator.score_function(200)}
    alg = vi.cavi(
        MODEL, estimator=estimator, step_size=vi.step_size.robbins_monro(0.5), penalty_every=1
    )
    fit = vi.fit(alg, Y, num_steps=300, key=KEY)
    np.testing.assert_allclose(numbers(fit.posterior), optimum, rtol=0.05)


def test_a_free_form_posterior_with_the_prior_in_the_energy_is_the_same():
    """-H(q) - E_q[log prior] in the energy = KL(q || prior) outside it; in float64 to rounding."""
    prior = vi.Gamma.from_shape_rate(2.0, 3.0)
    likelihood = lambda s, y: y * s["rate"].log - s["rate"].value
    with_prior = vi.energy_model(globals={"rate": prior}, energy=likelihood, example=1.0)
    own = lambda s: (
        (2.0 - 1.0) * s["rate"].log - 3.0 * s["rate"].value + 2 * np.log(3.0) - special.gammaln(2.0)
    )
    reference = vi.Gamma.from_shape_rate(1.0, 1.0)
    counts = jnp.array([2.0, 0.0, 5.0])
    with jax.enable_x64(True):
        bare = vi.model(
            prior={"rate": reference},
            local_elbo=lambda s, y, key: (y * s["rate"].log - s["rate"].value + own(s) / 3, None),
        )
        free = vi.fit(vi.cavi(bare, estimand=vi.estimand.free_form()), counts, num_steps=3, key=KEY)
        usual = vi.fit(vi.cavi(with_prior), counts, num_steps=3, key=KEY)
        for a, b in zip(
            jax.tree.leaves(free.posterior), jax.tree.leaves(usual.posterior), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        np.testing.assert_allclose(free.trace["elbo"][-1], usual.trace["elbo"][-1], rtol=1e-6)


CHARTED = {
    "normal": vi.Normal.from_mean_variance(jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])),
    "multivariate_normal": vi.MultivariateNormal.from_mean_cov(
        jnp.array([1.0, -2.0]), jnp.array([[1.0, 0.4], [0.4, 2.0]])
    ),
    "gamma": vi.Gamma.from_shape_rate(2.0, 3.0),
    "inverse_gamma": vi.InverseGamma.from_shape_scale(3.0, 2.0),
    "beta": vi.Beta.from_alpha_beta(2.0, 0.5),
    "dirichlet": vi.Dirichlet.from_concentration(jnp.array([[0.5, 2.0, 1.0]])),
    "categorical": vi.Categorical.from_probs(jnp.array([0.2, 0.8])),
}


@pytest.mark.parametrize("name", CHARTED)
def test_charts_go_there_and_back_and_every_point_is_a_member(name):
    q = CHARTED[name]
    chart = vi.update.chart_of(q)
    phi = chart.to(q)
    for a, b in zip(jax.tree.leaves(chart.of(phi, q)), jax.tree.leaves(q), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    moved = jax.tree.map(
        lambda x: x + 0.7 * jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape), phi
    )
    assert all(bool(jnp.all(mask)) for mask in jax.tree.leaves(chart.of(moved, q).in_domain()))


def test_a_step_of_descent_is_that_of_the_gradient_in_the_chart():
    """d ELBO / d phi by autodiff of minus the KL to the target, which differs from the ELBO by a
    constant."""
    q, target = vi.Normal.from_mean_variance(0.5, 2.0), vi.Normal.from_mean_variance(-1.0, 0.7)
    update = vi.update.descend(optax.sgd(0.1))
    new, _ = update.propose(q, target, 1.0, update.init(q))
    chart = vi.update.chart_of(q)
    phi = chart.to(q)
    slope = jax.grad(lambda phi: chart.of(phi, q).kl(target))(phi)
    for a, b, g in zip(chart.to(new), phi, slope, strict=True):
        np.testing.assert_allclose(a, b - 0.1 * g, rtol=1e-4, atol=1e-6)


def test_natural_gradients_in_a_loop_of_optax_with_clipping_and_momentum():
    """Families beside the weights of a network: those pass as plain gradients."""
    goal = {"q": vi.Gamma.from_shape_rate(4.0, 2.0), "w": jnp.array([1.0, -1.0])}
    params = {"q": vi.Gamma.from_shape_rate(1.0, 1.0), "w": jnp.zeros(2)}
    loss = lambda p: p["q"].kl(goal["q"]) + jnp.sum((p["w"] - goal["w"]) ** 2)
    optimizer = optax.chain(
        vi.update.natural_gradient(), optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.5)
    )

    @jax.jit
    def step(params, state):
        change, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, change), state

    state = optimizer.init(params)
    for _ in range(150):
        params, state = step(params, state)
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(goal), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3)
    q = CHARTED["beta"]
    own = lambda q: jax.grad(lambda q, p: q.kl(p))(q, q.flat())
    plain = jax.jit(lambda q: vi.update.natural_gradient().update(own(q), None, q)[0])(q)
    for a, b, c in zip(*map(jax.tree.leaves, (plain, q, q.flat())), strict=True):
        np.testing.assert_allclose(
            a, b - c, rtol=1e-4
        )  # F^-1 of grad KL(q || p) is lambda_q - lambda_p
    with pytest.raises(ValueError, match="expected the parameters"):
        optimizer.update(jax.grad(loss)(params), state)


CHOICES = [
    vi.estimand.mode(),
    *(estimator for estimator, _ in ESTIMATORS.values()),
    *(update for name, (update, _) in UPDATES.items() if name != "descend"),
    vi.update.descend(),  # an optimiser of one's own is equal to itself alone
    vi.step_size.robbins_monro(kappa=0.6),
    vi.step_size.beta(2.0, vi.step_size.constant()),
    vi.step_size.backtracking(0.3),
]


@pytest.mark.parametrize("choice", CHOICES, ids=describe.setting)
def test_choices_are_equal_by_value_and_pickle(choice):
    again = pickle.loads(pickle.dumps(choice))
    assert again == choice
    assert hash(again) == hash(choice)
    assert again != vi.step_size.constant(0.123)


# --- what the user says ---------------------------------------------------------------------------
def mixed_model():
    """A free variable beside a conjugate one."""

    def energy(s, y):
        return 0.5 * (
            s["precision"].log - s["precision"].value * (y - s["at"]) ** 2 - jnp.log(2 * jnp.pi)
        )

    prior = {
        "precision": vi.Gamma.from_shape_rate(2.0, 1.0),
        "at": vi.free(log_prior=lambda x: -0.5 * x**2),
    }
    return vi.energy_model(globals=prior, energy=energy, example=0.5)


SQUARE = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum(v["x"] ** 2))
SAID_OF = {
    "conjugate": MODEL,
    "free": with_guide(SQUARE, vi.guides.full_rank()),
    "no exponential family": with_guide(SQUARE, vi.guides.low_rank(1)),
    "both": mixed_model(),
}
ROWS = {
    **{
        name: getattr(vi, name)
        for name in ("cavi", "svi", "ssvi", "ssvi_a", "pg_svi", "ngvi", "bam", "advi", "bbvi")
    },
    "memoized": lambda model, **said: vi.memoized(model, 2, **said),
}
SAID = {
    "estimator": [
        *(e for e, _ in ESTIMATORS.values()),
        vi.estimator.least_squares(8),
        vi.estimator.batch_and_match(8),
    ],
    "update": [*(update for update, _ in UPDATES.values()), vi.update.euclidean()],
}


def silent(row, model):
    """The spec of a row of which nothing is asked, or None where it does not serve the model."""
    try:
        return row(model).spec
    except ValueError:
        return None


@pytest.mark.parametrize("row", ROWS)
def test_what_is_said_is_what_the_step_does_or_an_error(row):
    """Of every estimator and update, for all globals or for one by name; the others keep the row's
    own."""
    heard = 0
    for model in SAID_OF.values():
        if (usual := silent(ROWS[row], model)) is None:
            continue
        names = list(jax.eval_shape(usual.model.prior, dict(usual.model.hyper)))
        for argument, choices in SAID.items():
            for choice in choices:
                for named in (None, *names):
                    try:
                        spec = ROWS[row](
                            model, **{argument: choice if named is None else {named: choice}}
                        ).spec
                    except ValueError as error:
                        assert "expected" in str(error)  # noqa: PT017 (one of the two ends)
                        continue
                    heard += 1
                    for name in names:
                        own = getattr(usual, argument).choice(name)
                        assert getattr(spec, argument).choice(name) == (
                            choice if named in (None, name) else own
                        )
    assert heard > 5


def test_each_row_is_silent_where_its_paper_says_nothing_and_says_the_rest():
    """What moves free variables, and by which message, where the user has said nothing."""
    free, both = SAID_OF["free"], SAID_OF["both"]
    own = lambda alg, name="free": (alg.spec.estimator.choice(name), alg.spec.update.choice(name))
    squares = vi.estimator.least_squares()
    assert own(vi.svi(both)) == own(vi.ssvi_a(both)) == (squares, vi.update.within(1.0))
    assert own(vi.ssvi_a(both), "precision") == (vi.estimator.ssvi_a(), vi.update.kl())
    assert own(vi.bam(free)) == (vi.estimator.batch_and_match(), vi.update.kl())
    assert own(vi.bam(free, nats=2.0)) == (vi.estimator.batch_and_match(), vi.update.within(2.0))
    assert own(vi.ngvi(free, nats=0.2)) == (
        vi.estimator.least_squares(num_samples=32),
        vi.update.within(0.2),
    )
    assert own(vi.advi(both), "precision") == (
        vi.estimator.reparameterised(num_samples=1),
        vi.update.descend(),
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: vi.svi(SAID_OF["both"], estimator=vi.estimator.mean_field()),
            r"estimator: expected one that draws 'free', .*, got mean_field\(.*\['precision'\]: "
            r"give it .* by name",
        ),
        (
            lambda: vi.advi(SQUARE, optimizer=ADAM, update=vi.update.kl()),
            "optimizer: expected none beside update",
        ),
        (
            lambda: vi.bam(SQUARE, nats=1.0, update=vi.update.kl()),
            "nats: expected none beside update, got both",
        ),
        (
            lambda: vi.ngvi(SQUARE, nats=2.0, update=vi.update.kl()),
            "nats: expected none beside update, got both",
        ),
        (
            lambda: vi.advi(
                SQUARE,
                objective=vi.objective.renyi(0.5),
                estimator={"free": vi.estimator.reparameterised()},
            ),
            "objective: expected none beside estimator, got both. Leave one out",
        ),
        (
            lambda: vi.bbvi(SQUARE, optimizer=ADAM, update={"free": vi.update.kl()}),
            "optimizer: expected none beside",
        ),
    ],
)
def test_what_cannot_be_heard_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_charts_of_several_normals_are_those_of_each():
    cov = jnp.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.3], [-0.3, 0.4]]])
    q = vi.MultivariateNormal.from_mean_cov(jnp.ones((2, 2)), cov)
    chart = vi.update.chart_of(q)
    np.testing.assert_allclose(chart.of(chart.to(q), q).cov, cov, rtol=1e-5)
