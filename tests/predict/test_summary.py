"""Tables of posteriors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.predict.summary import Summary, usual_draws

MODEL = vi.density(
    {"x": vi.free(2), "scale": vi.free(support="positive")},
    lambda v: -0.5 * jnp.sum((v["x"] - 3.0) ** 2) + 8 * jnp.log(v["scale"]) - 2 * v["scale"],
)


def test_a_fit_has_a_table_of_all_its_numbers():
    """scale is Gamma(9, 2) but for q: mean 4.5, sd 1.5."""
    fit = vi.auto(MODEL, key=jax.random.key(0), richer=False)
    table = fit.summary(level=0.5)
    assert table.names == ("scale", "x[0]", "x[1]")
    np.testing.assert_allclose(table.mean, [4.5, 3.0, 3.0], atol=0.1)
    np.testing.assert_allclose(table.sd, [1.5, 1.0, 1.0], rtol=0.07)
    np.testing.assert_allclose(table.high[1:], 3.6745, atol=0.06)
    np.testing.assert_array_equal(table.mean, fit.summary(level=0.5).mean)
    assert (fit.summary(key=jax.random.key(5)).mean != table.mean).all()
    assert fit.summary(num_draws=10).num_draws == 10
    assert "25 %" in repr(table)
    frame = pytest.importorskip("pandas") and table.to_frame()
    assert frame.loc["x[1]", "mean"] == table.mean[2]
    with pytest.raises(ValueError, match=naming("level:", "0", "1", "95")):
        fit.summary(level=95)


def test_long_tables_say_what_they_leave_out():
    many = np.zeros(100)
    text = repr(Summary(tuple(f"x[{i}]" for i in range(100)), many, many, many, many, 0.9, 50))
    assert text.splitlines()[-2] == "... and 60 more numbers: to_frame() has all of them"
    assert text.splitlines()[-1] == "by 50 draws of q: means are known to 0.14 of their sds"
    assert len(text.splitlines()) == 43


def test_there_are_fewer_draws_of_many_numbers():
    assert [usual_draws(n) for n in (0, 10, 20_000, 131_072)] == [4000, 4000, 1677, 256]
    with pytest.raises(ValueError, match=naming("summary:", "131,072", "1,000,000")):
        usual_draws(1_000_000)


def test_a_printed_report_is_a_page():
    fit = vi.auto(MODEL, key=jax.random.key(0), richer=False)
    text = repr(fit.report)
    assert len(text.splitlines()) < 25
    assert max(map(len, text.splitlines())) <= 130
    assert "array(" not in text
    assert fit.report.verdict[:30] in text
    assert "mode 1: 16 starts" in text


def test_swapped_arguments_of_draws_are_named():
    fit = vi.auto(MODEL, key=jax.random.key(0), richer=False)
    with pytest.raises(
        ValueError,
        match=naming("key:", "10", "fit.sample"),
    ):
        fit.sample(10, jax.random.key(0))
    with pytest.raises(ValueError, match=naming("num_draws:", "random key")):
        fit.sample(jax.random.key(0), jax.random.key(0))
