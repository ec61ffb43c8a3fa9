"""The loop: what an interrupt does."""

import signal

import jax
import jax.numpy as jnp
import pytest

import vijax as vi
from vijax.fit import FINISHING

COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)


def fit(callback):
    alg = vi.cavi(COIN)
    return vi.fit(alg, jnp.ones(3), key=jax.random.key(0), num_steps=100, steps_per_chunk=1, callbacks=(callback,))


def test_an_interrupt_is_answered_at_once_and_ends_with_the_chunk(capfd):
    """The callback is between chunks: the next one, the third, is the one that is finished."""
    said = []

    def interrupt(seen):
        if seen.step == 2:
            signal.raise_signal(signal.SIGINT)
            said.append(capfd.readouterr().err)

    result = fit(interrupt)
    assert said == [FINISHING + "\n"]
    assert capfd.readouterr().err == ""
    assert result.status is vi.Status.INTERRUPTED
    assert int(result.state.step) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_stops_at_once(capfd):
    def interrupt(seen):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(interrupt)
    assert capfd.readouterr().err == FINISHING + "\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
