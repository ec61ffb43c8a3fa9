"""Models of topics on meshes that split topics, as `tests/scale/test_by_topic.py` fits them in
processes of eight devices."""

import re

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from tests.mesh_cases import apart

K, V = 8, 43
RNG = np.random.default_rng(1)
COUNTS = RNG.poisson(0.1 * RNG.gamma(0.3, 3.0, (40, V)))
COUNTS[:, 0] += 1
MODELS = ("lda", "hdp", "ctm", "hpf")
SENDS = r"= (\S+) (?:all-gather|all-to-all|collective-permute)(?:-start)?\("
MESHES = ((2, 4), (1, 2))


def algorithm(name, lazy):
    alg = vi.svi(getattr(vi.models, name)(K, V))
    return vi.topics.by_words(alg) if lazy else vi.topics.all_words(alg)


def fit(alg, mesh, num_steps=8, **more):
    settings = {"num_steps": num_steps, "batch_size": 14, "key": jax.random.key(1), **more}
    return vi.fit(alg, COUNTS, mesh=mesh, **settings)


def report_fits(name, lazy):
    """A line for each mesh: the largest difference from the fit on one device; and the splits of
    the tables of the result."""
    alg = algorithm(name, lazy)
    one = fit(alg, vi.scale.mesh(1))  # draws of locals are those of meshes
    for data, topics in MESHES:
        other = fit(alg, vi.scale.mesh(data=data, topics=topics))
        parts = [tuple(x.sharding.spec) for x in tables(other.state)]
        print(apart(one, other)[0], parts)


def report_top_words():
    """Whether top words of split topics, and their shares, are those of the host."""
    topics = fit(algorithm("lda", lazy=True), vi.scale.mesh(data=2, topics=4)).posterior["topics"]
    ids, shares = vi.topics.top_words(topics, 5)
    means = np.asarray(topics.concentration)
    means = means / means.sum(1, keepdims=True)
    print(np.allclose(np.take_along_axis(means, ids, 1), shares, rtol=1e-12))
    print(np.allclose(-np.sort(-means, 1)[:, :5], shares, rtol=1e-12))


def tables(state):
    return [x for x in jax.tree.leaves(state.posterior) if sorted(x.shape) == [K, V]]


def report_sends(name, lazy):
    """The shapes of arrays that devices send each other as they are, in a start and in a step, on
    each mesh."""
    alg = algorithm(name, lazy)
    batch = next(iter(vi.data.minibatches(vi.data.Corpus.from_counts(COUNTS), 14, seed=0)))
    batch = jax.tree.map(jnp.asarray, vi.topics.renumbered(batch, V) if lazy else batch)
    words = len(batch.data.words) if lazy else V
    key = jax.random.key(0)
    for data, topics in MESHES:
        split = vi.scale.on_mesh(alg, vi.scale.mesh(data=data, topics=topics))
        start = jax.jit(split.init).lower(key, batch).compile()
        state = start(key, batch)
        step = jax.jit(split.step).lower(key, state, batch).compile()
        print([list(map(is_table(words), sent(program))).count(True) for program in (start, step)])


def sent(program):
    shapes = re.findall(SENDS, program.as_text())
    return [
        tuple(map(int, re.findall(r"\d+", x.partition("[")[2].partition("]")[0]))) for x in shapes
    ]


def is_table(words):
    """A test of shapes: all topics and all words, of the vocabulary or of the batch."""
    sizes = {V, words, words + 1}
    return lambda shape: K in shape and bool(sizes & set(shape))


def report_checkpoints(folder):
    """The files of a checkpoint at half of a run on 2 x 4 devices; and how far runs that go on from
    it on other meshes, and on one device, end from the run of one device."""
    alg = algorithm("lda", lazy=False)
    half = lambda p: p.step == 4 and bool(vi.checkpoint.save(folder, p.step, p.whole))
    start = fit(alg, vi.scale.mesh(data=2, topics=4), callbacks=[half], steps_per_chunk=4)
    kept = vi.checkpoint.latest(folder, like=start.state)
    print(*sorted(path.name for path in kept.path.with_suffix(".rows").iterdir()))
    whole = fit(alg, None)
    for mesh in (
        vi.scale.mesh(data=2, topics=4),
        vi.scale.mesh(data=4, topics=2),
        vi.scale.mesh(2),
        None,
    ):
        end = fit(alg, mesh, state=kept.tree)
        print(apart(whole._replace(trace=end.trace), end)[0])
    end = fit(alg, None, state=start.state)  # from a state that lies on eight devices
    print(apart(whole._replace(trace=end.trace), end)[0], len(tables(end.state)[0].devices()))
