"""What `energy_model` refuses, and what it finds whatever the values of the example are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax import reference

NORMAL = vi.Normal.from_mean_variance(0.0, 1.0)
HALF = vi.Bernoulli.from_probs(0.5)
KEY = jax.random.key(0)


def make(energy, example=0.0, globals=None, **rest):
    return vi.energy_model(globals=globals or {"m": NORMAL}, energy=energy, example=example, **rest)


def two_bernoullis(energy, example):
    return make(energy, example, locals={"z1": HALF, "z2": HALF})


def normal_energy(s, y):
    return y * s["m"].value - 0.5 * s["m"].square


COUPLED = {
    "float": (lambda y, z: 2.0 * y * z, (0.0, 1.0, -3.0)),
    "vector": (lambda y, z: jnp.sum(y) * z, (np.zeros(3), np.ones(3))),
    "count": (lambda y, z: jnp.where(y == 2.0, z, 0.0), (0.0, 1.0)),
    "sign": (lambda y, z: jnp.where(y < 0, z, 0.0), (0.0, 1.0)),
    "integer": (lambda y, z: y * z, (0, 1)),
    "mask": (lambda y, z: jnp.where(y, z, 0.0), (False, True)),
    "logarithm": (lambda y, z: jnp.log(y) * z, (0.0, 1.0, 2.0)),
    "proportion": (lambda y, z: jnp.log1p(-y) * z, (1.0, 0.5)),
}


@pytest.mark.parametrize("name", COUPLED)
def test_couplings_are_found_at_any_values_of_the_example(name):
    """Also where the product of the two locals is times zero, or not finite, at the example."""
    term, examples = COUPLED[name]
    for example in examples:
        model = two_bernoullis(
            lambda s, y: s["m"].value + term(y, s["z1"].value * s["z2"].value), example
        )
        assert model.queries["energy"].local_blocks == (("z1",), ("z2",)), example


@pytest.mark.parametrize("example", [0.0, 1.0])
def test_an_energy_that_is_not_multilinear_is_refused_at_any_example(example):
    with pytest.raises(ValueError, match=r"not linear in stats\['m'\]\.value"):
        make(lambda s, y: jnp.exp(s["m"].value) * y, example)
    with pytest.raises(ValueError, match=r"not linear in stats\['m'\]\.value"):
        make(lambda s, y: y * s["m"].value ** 2, example)


def test_the_bound_of_coupled_bernoullis_is_below_the_evidence_whatever_the_example():
    """y z1 z2 at y = -4 and 4: with example 0 the two were taken for independent, 1.548 at both."""
    b = np.array([[0.0, 0.3], [0.6, 0.9]])
    values = []
    for example in (0.0, 1.0):
        model = two_bernoullis(
            lambda s, y: (
                0.6 * s["z1"].value + 0.3 * s["z2"].value + 2 * y * s["z1"].value * s["z2"].value
            ),
            example,
        )
        data = jnp.array([-4.0, 4.0])
        stats = model.prior({}).expected_stats()
        values.append(
            model.local_elbo({}, stats, vi.Minibatch(data, None), KEY, model.estep).per_group
        )
    exact = [np.log(np.sum(np.exp(b + 2 * y * np.outer([0, 1], [0, 1])))) for y in (-4.0, 4.0)]
    assert np.all(np.asarray(values[0]) < exact)
    np.testing.assert_array_equal(values[0], values[1])


def vdot_with(log_p):
    return lambda s, y: jnp.vdot(s["z"].one_hot, log_p(y)) + y * s["m"].value


@pytest.mark.parametrize(
    ("log_p", "example"),
    [
        (lambda y: jnp.array([0.0, -jnp.inf]), 0.0),
        (lambda y: jnp.array([0.0, -jnp.inf]), 1.0),
        (
            lambda y: jnp.stack([jnp.where(y > 0, -jnp.inf, 0.0), -y]),
            0.0,
        ),  # the branch is not taken at the example
        (lambda y: jnp.stack([jnp.where(y > 0, -jnp.inf, 0.0), -y]), 2.0),
    ],
)
def test_minus_infinity_is_refused_with_its_remedy(log_p, example):
    local = {"z": vi.Categorical.from_probs([0.5, 0.5])}
    with pytest.raises(
        ValueError,
        match=naming("energy:", "-inf"),
    ):
        make(vdot_with(log_p), example, locals=local)
    make(vdot_with(lambda y: jnp.maximum(log_p(y), 0.0)), example, locals=local)


def test_energies_that_are_not_finite_are_told_apart():
    with pytest.raises(ValueError, match=naming("energy:", "nan at")):
        make(lambda s, y: s["m"].value * jnp.log(-1.0 - y**2))
    with pytest.raises(ValueError, match=naming("prior_energy:", "-inf")):
        make(
            normal_energy,
            globals={"m": vi.conditional(NORMAL)},
            prior_energy=lambda s: s["m"].value - jnp.inf,
        )
    make(lambda s, y: y * s["m"].value + jnp.log(y), 0.0)  # finite at other values


@pytest.mark.parametrize(
    ("energy", "message"),
    [
        (
            lambda s, y: s["mu"].value * y,
            r"^energy: expected the name of a variable, .* 'mu'.*\['m'\].*mean 'm'",
        ),
        (
            lambda s, y: s["m"].mean * y,
            r"^energy: expected a statistic of 'm', \['value', 'square'\], got .*\.mean",
        ),
    ],
)
def test_names_that_are_not_there(energy, message):
    with pytest.raises(ValueError, match=message):
        make(energy)


def test_names_of_data_and_of_prior_energies_that_are_not_there():
    with pytest.raises(ValueError, match=naming("'w'", "'x'", "'y'")):
        make(lambda s, d: s["m"].value * d["w"], {"x": 0.0, "y": 0.0})
    with pytest.raises(ValueError, match=naming("prior_energy:", "'m'")):
        make(
            normal_energy,
            globals={"m": vi.conditional(NORMAL)},
            prior_energy=lambda s: s["m"].variance,
        )


UNLIKE = {
    "size": (
        np.zeros((4, 3)),
        r"expected groups of shape \(2,\), got shape \(4, 3\) in all: 2 to 3\. Show energy_model",
    ),
    "complex": (
        np.zeros((4, 2), complex),
        r"expected real numbers, as in the example, got complex numbers\.",
    ),
    "axes": (np.zeros((4, 2)), r"expected groups of shape \(\), got shape \(4, 2\) in all"),
    "scalar": (
        np.float32(1.0),
        r"expected (groups of shape \(\), got shape \(\) in all|arrays, got a single number)",
    ),
    "structure": ((np.zeros(4), np.zeros(4)), r"expected the structure of the example"),
}


@pytest.mark.parametrize("name", UNLIKE)
@pytest.mark.parametrize("entry", ["fit", "step", "locals", "gibbs", "log_joint"])
def test_data_unlike_the_example_are_refused_everywhere(name, entry):
    data, message = UNLIKE[name]
    total = lambda s, y: jnp.sum(y) * s["m"].value - 0.5 * s["m"].square
    model = make(total, np.zeros(2)) if name in ("size", "complex") else make(normal_energy)
    known = np.zeros((4, 2)) if name in ("size", "complex") else np.zeros(4)
    alg = vi.cavi(model)
    calls = {
        "fit": lambda: vi.fit(alg, data, num_steps=1, key=KEY),
        "step": lambda: alg.step(KEY, alg.init(KEY), data),
        "locals": lambda: vi.fit(alg, known, num_steps=1, key=KEY).locals(data, key=KEY),
        "gibbs": lambda: reference.gibbs(model, data, key=KEY, num_samples=1),
        "log_joint": lambda: reference.log_joint(model, data),
    }
    with pytest.raises(ValueError, match=r"^data: " + message):
        calls[entry]()


def test_sizes_may_differ_where_the_energy_takes_them():
    """Where it says so, groups of any length; but not vectors of other lengths than a
    parameter's."""
    total = lambda s, y: jnp.sum(y) * s["m"].value - 0.5 * y.size * s["m"].square
    sums = make(total, np.zeros(2), structure=vi.Structure(any_size=True))
    q = vi.fit(vi.cavi(sums), np.ones((3, 5)), num_steps=1, key=KEY).posterior["m"]
    np.testing.assert_allclose([q.mean(), q.variance()], [15 / 16, 1 / 16], rtol=1e-6)
    three = {"m": vi.Normal.from_mean_variance(jnp.zeros(3), 1.0)}
    dot = make(
        lambda s, y: y @ s["m"].value - 0.5 * jnp.sum(s["m"].square),
        np.zeros(3),
        three,
        structure=vi.Structure(any_size=True),
    )
    with pytest.raises(
        ValueError,
        match=r"groups of shape \(3,\), got shape \(4, 2\) in all, which the energy does not",
    ):
        vi.fit(vi.cavi(dot), np.zeros((4, 2)), num_steps=1, key=KEY)


def series(s, d):
    """Values of a chain of locals, one a step."""
    fit = s["z"].one_hot @ jnp.array([0.0, 1.0])
    return (
        jnp.sum(jnp.where(d["mask"], d["y"][:, 0] * fit * s["m"].value, 0.0)) - 0.5 * s["m"].square
    )


def test_groups_are_of_the_size_of_their_locals():
    """Steps may be more or fewer where locals are, all arrays of steps alike; columns may not."""
    chain = lambda d: {"z": vi.Categorical(jnp.zeros((len(d["y"]), 2)))}
    model = make(series, {"y": np.zeros((3, 2)), "mask": np.ones(3, bool)}, locals=chain)
    data = lambda steps, columns: {
        "y": np.ones((4, steps, columns)),
        "mask": np.ones((4, steps), bool),
    }
    for steps in (1, 3, 7):
        found = vi.fit(vi.cavi(model), data(steps, 2), num_steps=1, key=KEY).locals(
            data(steps, 2), key=KEY
        )
        assert found["z"].batch_shape == (4, steps)
    for unlike, sizes in ((data(3, 5), "2 to 5"), (data(7, 5), "2 to 5, 3 to 7")):
        with pytest.raises(
            ValueError, match=rf"^data: expected groups of shapes .* in all: {sizes}\. Show"
        ):
            vi.fit(vi.cavi(model), unlike, num_steps=1, key=KEY)
    ragged = {**data(7, 2), "mask": np.ones((4, 5), bool)}
    with pytest.raises(ValueError, match=r"in all: 3 to 5, 3 to 7\. Show"):
        vi.fit(vi.cavi(model), ragged, num_steps=1, key=KEY)


def test_entries_of_data_that_are_none_are_none_everywhere():
    model = make(lambda s, d: normal_energy(s, d["y"]), {"y": 0.0, "more": None})
    vi.fit(vi.cavi(model), {"y": np.zeros(4), "more": None}, num_steps=1, key=KEY)
    with pytest.raises(ValueError, match=naming("data:", "structure")):
        vi.fit(vi.cavi(model), {"y": np.zeros(4), "more": np.zeros(4)}, num_steps=1, key=KEY)


def test_data_that_are_not_finite_are_named_unless_the_energy_takes_them():
    y = np.zeros((5, 2), np.float32)
    y[3, 1] = np.nan
    total = lambda s, y: jnp.sum(y) * s["m"].value - 0.5 * s["m"].square
    plain = make(total, np.zeros(2))
    with pytest.raises(ValueError, match=naming("data:", "3, column", "1", "0")):
        vi.fit(vi.cavi(plain), y, num_steps=1, key=KEY)
    missing = make(lambda s, y: total(s, jnp.nan_to_num(y)), np.zeros(2))
    assert vi.fit(vi.cavi(missing), y, num_steps=1, key=KEY).posterior["m"].mean() == 0.0
    pair = make(lambda s, d: total(s, d["x"]) + d["w"] * 0.0, {"w": 0.0, "x": np.zeros(2)})
    with pytest.raises(ValueError, match=naming("data['w']:", "0")):
        vi.fit(
            vi.cavi(pair), {"w": np.full(5, np.inf), "x": np.zeros((5, 2))}, num_steps=1, key=KEY
        )


def test_polya_gamma_locals_are_taken_from_a_dict_as_from_a_function():
    def energy(s, group):
        x, y = group
        b = s["m"]
        return jnp.sum(0.5 * y * x * b.value - 0.5 * s["w"].value * x**2 * b.square) - 2 * jnp.log(
            2.0
        )

    example = (jnp.ones(2), jnp.ones(2))
    local = {"w": vi.PolyaGamma.from_b_c(1, jnp.zeros(2))}
    data = jnp.array([[1.0, 2.0], [0.5, -1.0]]), jnp.array([[1.0, 1.0], [-1.0, 1.0]])
    fits = [
        vi.fit(vi.cavi(make(energy, example, locals=given)), data, num_steps=5, key=KEY)
        for given in (local, lambda group: local)
    ]
    np.testing.assert_array_equal(fits[0].trace["elbo"], fits[1].trace["elbo"])
    with pytest.raises(ValueError, match=r"locals\['w'\]: expected a family"):
        make(energy, example, locals=lambda group: {"w": 1.0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"globals": {"m": vi.Normal(0.0, 1.0)}},
            r"globals\['m'\]: .*Did you mean Normal\.from_mean_variance\(0\.0, 1\.0\)",
        ),
        (
            {"locals": {"z": vi.Gamma(2.0, 3.0)}},
            r"locals\['z'\]: .*Did you mean Gamma\.from_shape_rate\(2\.0, 3\.0\)",
        ),
        (
            {"globals": lambda h: {"m": vi.Normal(0.0, h["v"])}, "hyper": {"v": 1.0}},
            r"globals\['m'\]: .*Did you mean",
        ),
    ],
)
def test_improper_families_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        vi.energy_model(
            **{
                "globals": {"m": NORMAL},
                "energy": lambda s, y, *h: normal_energy(s, y),
                "example": 0.0,
            }
            | arguments
        )


@pytest.mark.parametrize(
    "term",
    [jnp.abs, lambda m: jnp.where(m > 15, 5 * m, 0.0), lambda m: jnp.maximum(m, 50.0)],
    ids=["abs", "where", "maximum"],
)
def test_a_function_with_a_kink_is_not_linear(term):
    """Linear on either side of its kink, wherever that is: coordinate ascent would jump between two
    wrong values."""

    def energy(s, y):
        return y * s["mean"].value - 0.5 * s["mean"].square - term(s["mean"].value)

    prior = {"mean": vi.Normal.from_mean_variance(0.0, 100.0)}
    with pytest.raises(ValueError, match=r"not linear in stats\['mean'\].value"):
        vi.energy_model(globals=prior, energy=energy, example=0.0)
