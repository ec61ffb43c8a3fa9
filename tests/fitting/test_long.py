"""A run of very many steps takes the memory, descriptors and threads of a short one."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self")

CODE = """
import gc, os, threading
import jax, numpy as np, vijax as vi
from tests.memory import resident_bytes

rng = np.random.default_rng(0)
y = rng.normal(size=(400, 2))
y[7] = np.nan  # the step of its batch is skipped
model = vi.models.mixture(vi.models.emission.diagonal_gaussian(2, 2))
found = {}

def look(p):
    if p.step in (STEPS // 10, STEPS):
        gc.collect()
        found[p.step] = resident_bytes(), len(os.listdir("/proc/self/fd")), threading.active_count()

def batches(start, stop):
    for step in range(start, stop):
        rows = np.random.default_rng(step).integers(0, 400, 8)
        yield vi.Minibatch(y[rows].astype(np.float32), np.float32(400))

class Stream:
    num_groups, num_words, steps_per_epoch = 400, None, 50
    batches = staticmethod(batches)

fit = vi.fit(vi.svi(model), Stream(), key=jax.random.key(0), num_steps=STEPS, callbacks=[look], max_bad_steps=100)
assert fit.num_skipped > STEPS // 200, fit.num_skipped
assert fit.status is vi.Status.FINISHED
for x in jax.tree.leaves(fit.posterior):
    assert np.isfinite(x).all()
first, last = found[STEPS // 10], found[STEPS]
print(last[0] - first[0], sum(x.nbytes for x in fit.trace.values()), last[1] - first[1], last[2] - first[2])
"""


def grown(steps):
    """Bytes, those of them that are the trace, descriptors and threads, from a tenth of a run to
    its end."""
    command = [sys.executable, "-W", "ignore", "-c", CODE.replace("STEPS", str(steps))]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return [int(x) for x in done.stdout.split()]


@pytest.mark.slow
def test_a_hundred_thousand_steps_with_bad_batches_among_them():
    """What grows is the trace, a row of numbers for each step."""
    size, trace, descriptors, threads = grown(100_000)
    assert size < 3 * trace + 2**24
    assert (descriptors, threads) == (0, 0)
