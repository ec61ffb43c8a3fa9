"""What a process keeps of its fits: the programs of the algorithms it still holds, and the numbers
it was given."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import jax
import numpy as np
import pytest

import vijax as vi
from tests.programs import compiled, names_since
from vijax.fitting.restarts import many
from vijax.xla import compiler

Y = np.array([1.0, 1.0, 0.0, 1.0], np.float32)


def coin(a):
    return vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(a, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )


def fit(alg, **more):
    return vi.fit(alg, Y, num_steps=2, key=jax.random.key(0), **more)


def test_algorithms_that_are_let_go_of_take_their_programs_with_them():
    gc.collect()
    before, steps, models = len(compiler._programs), [], []
    for i in range(12):
        model = coin(1.0 + i)
        alg = vi.cavi(model)
        assert float(fit(alg).posterior["bias"].alpha) == 4.0 + i
        steps.append(weakref.ref(alg.step))
        models.append(weakref.ref(model))
    del model, alg
    gc.collect()
    assert [sum(ref() is not None for ref in refs) for refs in (steps, models)] == [0, 0]
    assert len(compiler._programs) <= before


def test_an_algorithm_that_is_held_is_compiled_once():
    traces = []

    def counted(key, state, batch, step):
        traces.append(0)
        return step(key, state, batch)

    alg = vi.cavi(coin(1.0))
    alg = alg._replace(
        step=lambda key, state, batch, step=alg.step: counted(key, state, batch, step)
    )
    first = fit(alg)
    count = len(traces)
    fit(alg)
    fit(alg, state=first.state)
    assert len(traces) == count > 0


@pytest.mark.filterwarnings("ignore:restarts")  # the start draws nothing
def test_restarts_of_an_algorithm_that_is_held_are_compiled_once():
    alg = vi.cavi(coin(1.0))
    first, again = many(alg, 3), many(alg, 3)
    assert (first.init, first.step) == (again.init, again.step)
    assert many(alg, 2).step is not first.step
    fit(alg, restarts=3)
    before = compiled()
    fit(alg, restarts=3)
    assert compiled() == before


READY = {
    "ard_regression": lambda: vi.models.ard_regression(7),
    "dp_mixture": lambda: vi.models.dp_mixture(vi.models.emission.full_gaussian(7, 3)),
    "factor_analysis": lambda: vi.models.factor_analysis(7, 3),
    "factorial_hmm": lambda: vi.models.factorial_hmm(3, 2, 7),
    "mixture": lambda: vi.models.mixture(vi.models.emission.tied_gaussian(7, 3)),
    "plsa": lambda: vi.models.plsa(3, 7, 11),
    "state_space": lambda: vi.models.linear_gaussian_state_space(7, 3),
}


@pytest.mark.parametrize("name", READY)
def test_a_ready_model_is_made_without_an_operation_by_itself(name):
    """Each would be a program of its own. (Templates of locals are filled.)"""
    before = compiled()
    READY[name]()
    assert set(names_since(before)) & (set(dir(jax.numpy)) | set(dir(jax.lax))) <= {
        "broadcast_in_dim",
        "convert_element_type",
    }


def test_a_start_that_computes_in_numpy_is_run_as_it_is():
    """Not all of it can be traced."""
    known = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
        init=lambda key, prior: vi.Product(
            {"bias": vi.Beta.from_alpha_beta(1.0 + float(np.asarray(prior["bias"].alpha)), 1.0)}
        ),
    )
    start = vi.fit(
        vi.svi(known, step_size=lambda t: 0.0), Y, num_steps=1, key=jax.random.key(0), batch_size=4
    )
    assert float(start.posterior["bias"].alpha) == 2.0


def test_the_trace_owns_its_numbers():
    """A view would keep a buffer of the device alive for every scalar of every chunk."""
    kept = []
    fit(vi.cavi(coin(1.0)), callbacks=[lambda seen: kept.append(seen.trace)], steps_per_chunk=1)
    assert all(x.base is None or isinstance(x.base, np.ndarray) for x in kept[0].values())
    assert all(x.flags.owndata for x in kept[0].values())


def test_a_fit_in_a_process_forked_after_a_fit_is_refused():
    """It would wait for ever for threads that a fork does not copy."""
    program = """
        import os, jax, numpy as np, vijax as vi
        coin = vi.model(
            prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
            local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
        )
        run = lambda: vi.fit(vi.cavi(coin), np.ones(3), num_steps=2, key=jax.random.key(0))
        run()
        child = os.fork()
        if child == 0:
            try:
                run()
            except RuntimeError as error:
                os.write(1, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
    """
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert "this process was forked from one that had fitted something" in done.stdout
    assert "multiprocessing.get_context('spawn')" in done.stdout
