"""No array without numbers is read inside `jax.shard_map`: jaxlib 0.11.2 removes it from the
program, and its partitioner then ends the process (seen on CPUs; 0.10.2 and 0.12.0.1 do not)."""

import jax
import pytest

import vijax as vi
from tests.mesh_cases import CASES
from vijax.data.loader import as_loader
from vijax.scale.place import pad_batch


def step_program(case):
    """The program of a step on a mesh of one device."""
    alg = case.make()
    batch_size = (case.settings or {}).get("batch_size")
    loader = as_loader(case.data, alg.spec.model, batch_size, 0, alg.spec.messages.num_parts)
    for wrapper in alg.wrappers:
        loader = wrapper.loader(loader, alg)
    batch = pad_batch(next(iter(loader.batches(0, 1))), 2)
    key = jax.random.key(0)
    state = alg.init(key, batch)
    return jax.make_jaxpr(vi.scale.on_mesh(alg, vi.scale.mesh(1)).step)(key, state, batch).jaxpr


def empty_reads(program, is_sharded=False):
    """The operations inside `shard_map` that read an array without numbers."""
    for equation in program.eqns:
        inside = is_sharded or equation.primitive.name == "shard_map"
        if inside and any(0 in getattr(x.aval, "shape", ()) for x in equation.invars):
            yield str(equation.primitive)
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from empty_reads(inner, inside)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:data. documents over:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_no_step_reads_one(name):
    assert list(empty_reads(step_program(CASES[name]))) == []


def test_a_step_of_a_mixture_reads_none():
    program = step_program(CASES["mixture by svi"])
    assert "shard_map" in {str(equation.primitive) for equation in program.eqns} | {
        str(inner.primitive)
        for equation in program.eqns
        for inner in getattr(equation.params.get("jaxpr"), "eqns", ())
    }
    assert list(empty_reads(program)) == []
