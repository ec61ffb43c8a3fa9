"""Ctrl-C in `vijax.auto` and `vijax.dadvi`: what was found is kept, and going on comes to the same
end."""

import functools
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming
from vijax.automatic import auto as automatic
from vijax.automatic.curvature import normal as curved
from vijax.automatic.trust_region import stage_like
from vijax.fitting import checkpoint
from vijax.verdict.target import Target

KEY = jax.random.key(0)


def log_density(v):
    """A gamma-like scale and values under it: no normal, so that draws are noisy."""
    return norm.logpdf(v["s"], 0, 0.7) + norm.logpdf(v["x"], 0, jnp.exp(0.5 * v["s"])).sum()


MODEL = vi.density({"s": vi.free(), "x": vi.free(3)}, log_density)
METHODS = {
    "auto": lambda **more: vi.auto(MODEL, key=KEY, richer=False, **more),
    "independent": lambda **more: vi.auto(MODEL, key=KEY, **more),
    "by curvature": lambda **more: vi.auto(MODEL, key=KEY, **more),
    "dadvi": lambda **more: vi.dadvi(MODEL, key=KEY, **more),
}


@functools.cache
def unbroken(method):
    """Its fit that nobody stops."""
    return method()


@pytest.fixture(params=METHODS)
def method(request, monkeypatch):
    if request.param in ("independent", "by curvature"):
        monkeypatch.setattr(automatic, "MOST_FULL", 3)
    if request.param == "independent":
        monkeypatch.setattr(curved, "MOST_DIM", 0)
    return METHODS[request.param]


def pressed(monkeypatch, after):
    """Ctrl-C when so many gradients have been evaluated."""
    plain = Target.slopes

    def slopes(self, x):
        before = self.num_gradients
        found = plain(self, x)
        if before < after <= self.num_gradients:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(Target, "slopes", slopes)


def gradients(fit):
    return fit.report.num_gradients


def same(one, other):
    for a, b in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.verdict == other.verdict
    assert one.elbo == other.elbo


@pytest.mark.parametrize("share", [0.02, 0.4, 0.8])
def test_what_was_found_is_kept_and_gone_on_with(method, share, monkeypatch, capfd):
    whole = unbroken(method)
    with monkeypatch.context() as patch:
        pressed(patch, int(share * gradients(whole)))
        part = method()
    assert "press again" in capfd.readouterr().err
    assert part.status is vi.Status.INTERRUPTED
    assert part.outcome == "stopped early"
    assert part.verdict.startswith("Stopped early, by Ctrl-C")
    assert gradients(part) < gradients(whole)
    assert np.all(np.isfinite(part.sample(jax.random.key(1), 100)["x"]))
    assert (part.report.stage is None) == (
        share == 0.02
    )  # amid the searches there is nothing to go on from
    again = method(stage=part.report.stage)
    same(again, whole)
    assert again.report.stage is None
    assert gradients(again) == gradients(whole)


def test_a_mixture_is_fitted_anew(monkeypatch):
    """Ctrl-C amid it leaves the normal; going on comes to the mixture."""
    make = lambda **more: vi.auto(MODEL, key=KEY, max_gradients=4000, **more)
    whole = make()
    assert "mixture" in whole.verdict
    with monkeypatch.context() as patch:
        pressed(patch, gradients(whole) - 200)
        part = make()
    assert part.status is vi.Status.INTERRUPTED
    assert part.alg.spec.name == "ngvi"
    same(make(stage=part.report.stage), whole)


def test_it_may_be_stopped_again_and_again(monkeypatch):
    whole, fit, times = unbroken(METHODS["auto"]), None, 0
    with monkeypatch.context() as patch:
        for share in (0.4, 0.7, 0.9):
            patch.undo()
            pressed(patch, int(share * gradients(whole)))
            fit = METHODS["auto"](stage=fit and fit.report.stage)
            times += fit.status is vi.Status.INTERRUPTED
    assert times == 3
    assert int(fit.report.stage.sitting.averaged) > 1  # amid fresh draws
    same(METHODS["auto"](stage=fit.report.stage), whole)


def test_a_stage_is_saved_like_anything(tmp_path, monkeypatch):
    whole = unbroken(METHODS["auto"])
    with monkeypatch.context() as patch:
        pressed(patch, gradients(whole) // 2)
        part = METHODS["auto"]()
    checkpoint.save(tmp_path, 0, part.report.stage)
    same(METHODS["auto"](stage=checkpoint.latest(tmp_path, stage_like(4, 16, True)).tree), whole)


def test_a_stage_of_something_else_is_refused(monkeypatch):
    with monkeypatch.context() as patch:
        pressed(patch, gradients(unbroken(METHODS["dadvi"])) // 2)
        stage = METHODS["dadvi"]().report.stage
    with pytest.raises(ValueError, match=naming("stage:", "3", "4", "16")):
        METHODS["auto"](stage=stage, num_starts=3)
    with pytest.raises(ValueError, match="stage: expected one of the same method"):
        METHODS["auto"](stage=stage)
    with pytest.raises(ValueError, match=naming("stage:", "fit.report.stage", "Fit")):
        METHODS["auto"](stage=unbroken(METHODS["dadvi"]))
    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    with pytest.raises(ValueError, match=r"stage: .*state=fit\.state"):
        vi.auto(coin, jnp.ones(3), key=KEY, stage=stage)


def test_a_second_one_stops_at_once(monkeypatch, interruptible):
    pressed(monkeypatch, 100)
    plain = Target.slopes
    monkeypatch.setattr(
        Target, "slopes", lambda self, x: (signal.raise_signal(signal.SIGINT), plain(self, x))[1]
    )
    with pytest.raises(KeyboardInterrupt):
        METHODS["auto"]()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_conjugate_fit_that_is_stopped_says_how_to_go_on(monkeypatch):
    from vijax.fitting import interrupt

    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    flag = interrupt.interrupt_flag

    def pressed_at_once():
        entered = flag()
        return _Pressed(entered)

    class _Pressed:
        def __init__(self, entered):
            self.entered = entered

        def __enter__(self):
            found = self.entered.__enter__()
            signal.raise_signal(signal.SIGINT)
            return found

        def __exit__(self, *why):
            return self.entered.__exit__(*why)

    monkeypatch.setattr(sys.modules["vijax.fitting.chunks"], "interrupt_flag", pressed_at_once)
    fit = vi.auto(coin, jnp.array([1.0, 0.0, 1.0] * 9), key=KEY)
    assert fit.status is vi.Status.INTERRUPTED
    assert fit.verdict.startswith("Stopped early, by Ctrl-C. Go on with vijax.fit(fit.alg")
