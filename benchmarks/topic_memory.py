"""Memory of a step on each device where topics are split over devices, by XLA's plan.

    python benchmarks/topic_memory.py [K] [V]

Eight devices of one CPU stand for any eight: the plan is a matter of the program. Nothing is run,
and no table is made."""

import os
import sys

DEVICES = 8
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

import vijax as vi  # noqa: E402
from vijax.scale.by_topic import find_tables, spread  # noqa: E402

GROUPS, WORDS = 256, 128
MESHES = ((1, 1), (8, 1), (2, 4), (1, 8))


def batch_of(vocab_size: int) -> vi.Minibatch:
    """Documents of different words."""
    rng = np.random.default_rng(0)
    words = rng.permuted(np.tile(np.arange(vocab_size, dtype=np.int32), (16, 1)), axis=1)
    words = np.resize(words[:, :WORDS], (GROUPS, WORDS))
    docs = vi.Documents(
        words, np.ones((GROUPS, WORDS), np.float32), np.ones(GROUPS, np.float32), WORDS
    )
    return vi.Minibatch((docs,), np.float32(1e6))


def memory(alg: vi.Algorithm, batch: vi.Minibatch, data: int, topics: int) -> tuple[float, float]:
    """GB of the state and of a step beside it, on the device that has most."""
    mesh = vi.scale.mesh(data=data, topics=topics)
    key = jax.random.key(0)
    batch = jax.tree.map(jnp.asarray, batch)
    split = vi.scale.on_mesh(alg, mesh)
    shapes = jax.eval_shape(alg.init, key, batch)
    tables = find_tables(alg.spec.model, shapes) if topics > 1 else {}
    places = spread(shapes, tables, mesh)
    whole = NamedSharding(mesh, PartitionSpec())
    place = lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where)
    state = jax.tree.map(place, shapes, places)
    batch = jax.tree.map(lambda x: place(x, whole), batch)
    step = jax.jit(split.step, donate_argnums=1).lower(place(key, whole), state, batch)
    plan = step.compile().memory_analysis()
    return plan.argument_size_in_bytes / 1e9, plan.temp_size_in_bytes / 1e9


def main() -> None:
    sizes = [int(x) for x in sys.argv[1:]] or [10_000, 100_000]
    model = vi.models.lda(*sizes)
    batch = batch_of(sizes[1])
    print("| steps | data x topics | state, GB a device | step, GB a device |\n|---|---|---|---|")
    for name, lazy in (("on all words", False), ("by words", True)):
        alg = vi.topics.by_words(vi.svi(model)) if lazy else vi.svi(model)
        own = vi.topics.renumbered(batch, sizes[1]) if lazy else batch
        for data, topics in MESHES:
            state, step = memory(alg, own, data, topics)
            print(f"| {name} | {data} x {topics} | {state:.2f} | {step:.2f} |", flush=True)


if __name__ == "__main__":
    main()
