"""Which options XLA is given for our programs, and when it is given none."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from vijax.xla import compiler
from vijax.xla.compiler import (
    LARGE,
    QUICK,
    STEP,
    cached_program,
    once_jit,
    quick_jit,
    step_jit,
    usable_options,
)


@pytest.mark.parametrize("jit", [quick_jit, step_jit, once_jit])
def test_it_is_jit_with_static_and_donated_arguments(jit):
    power = jit(lambda n, x: x**n, static_argnums=0)
    np.testing.assert_array_equal(power(2, np.array([2.0, 3.0])), [4.0, 9.0])
    taken = jax.numpy.ones(3)
    jit(lambda x: x + 1, donate_argnums=0)(taken)
    assert taken.is_deleted()


@pytest.mark.parametrize("jit", [quick_jit, step_jit, once_jit])
def test_within_another_program_it_is_a_part_of_it(jit):
    """JAX refuses options of its own to a part."""
    double = jit(lambda x: 2 * x)
    assert jax.jit(lambda x: double(x) + 1)(3) == 7
    assert jax.grad(double)(3.0) == 2
    np.testing.assert_array_equal(jax.vmap(double)(np.arange(3)), [0, 2, 4])
    assert jax.jit(lambda x: double(3) + x)(1) == 7


def test_little_work_is_compiled_quickly_and_much_of_it_well(monkeypatch):
    """Each time by one program alone, and by arguments of any kind."""
    made = {"quick_jit": [], "step_jit": []}
    for name, calls in made.items():
        monkeypatch.setattr(
            compiler, name, lambda fn, calls=calls: lambda *args, **named: calls.append(args)
        )
    program = once_jit(lambda x, y: None)
    program(np.ones(LARGE - 2), {"y": 1.0})
    program(np.ones(LARGE - 1), {"y": 1.0})
    assert [len(calls) for calls in made.values()] == [1, 1]
    program = once_jit(lambda x, n: None, work=lambda x, n: x.size * n)
    program(np.ones(4), n=LARGE // 4 - 1)
    program(np.ones(4), n=LARGE // 4)
    assert [len(calls) for calls in made.values()] == [2, 2]


def test_no_option_is_given_to_an_accelerator(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert usable_options(STEP) is None
    assert usable_options(QUICK) is None


def test_the_users_flags_stand(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", " ".join(f"--{name}=1" for name in QUICK))
    assert usable_options(STEP) is None
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    assert "xla_backend_optimization_level" not in (usable_options(STEP) or {})


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    options = {"xla_backend_optimization_level": 1, "xla_cpu_no_such_option": True}
    assert usable_options(options) == {"xla_backend_optimization_level": 1}
    assert usable_options({"xla_cpu_no_such_option": True}) is None


def test_what_is_kept_goes_with_its_owner():
    def owner() -> None: ...

    program = cached_program(owner, "it", lambda reference: [reference])
    assert cached_program(owner, "it", lambda reference: []) is program
    before = len(compiler._programs)
    del owner
    assert program[0]() is None
    assert len(compiler._programs) == before - 1


@pytest.mark.slow
def test_no_program_of_topics_and_words_that_fill_vectors_ends_the_process():
    """LLVM, at the optimisation level that steps once had, could not select instructions for 2
    topics of 8 words where the processor has AVX-512. It ends the process, so the test runs in one
    of its own, with what users have."""
    code = """
import jax, numpy as np, vijax as vi
counts = np.random.default_rng(0).poisson(1.0, (20, 8))
for row in (vi.map, vi.cavi):
    fit = vi.fit(row(vi.models.lda(2, 8)), counts, num_steps=3, key=jax.random.key(0))
    assert np.all(np.isfinite(fit.trace["elbo"]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
