"""Several processes that make one fit: how they are joined, and what they must agree on."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import signal
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from vijax.checks import require
from vijax.scale.watch import LOST, call_before_abort

HEARTBEAT_S = 40
"""Seconds without a sign of life after which JAX itself ends all processes; those who have a watch
know before."""


WAIT_S = 300
"""Seconds for which a process that joins waits for the others, where nothing is said."""


def initialize(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    initialization_timeout: int = WAIT_S,
    **more: Any,
) -> None:
    """Joins this process with others that run the same program, by `jax.distributed.initialize`.

    Call it before anything is computed, in every process. Inside `srun`, Open MPI, Kubernetes and
    what else JAX knows, or with JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID set,
    nothing need be given. Then `vijax.fit(..., mesh=vijax.scale.mesh())`, in every process with the
    same arguments, is one fit on the devices of all (`docs/how-to/cluster.md`).

    Args:
      coordinator: address and port of process 0, as 10.0.0.1:1234; any free port.
      num_processes: number of processes.
      process_id: number of this one, from 0.
      initialization_timeout: seconds for which it waits for the others to come. Then this process
        ends, with a sentence and exit code 5: JAX's own client ends it, with nothing for Python to
        catch.
      **more: other arguments of `jax.distributed.initialize`.

    Raises:
      ValueError: only some of the three are given, and JAX detects no cluster; an address without a
        port; an argument that neither this nor JAX has.
      RuntimeError: it is called twice, or JAX has computed something before.
    """
    _check_names(more)
    _check_address(coordinator)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if "heartbeat_timeout_seconds" in inspect.signature(jax.distributed.initialize).parameters:
        more = {"heartbeat_timeout_seconds": HEARTBEAT_S, **more}
    known = os.environ
    if (
        num_processes is None
        and process_id is None
        and {"JAX_NUM_PROCESSES", "JAX_PROCESS_ID"} <= set(known)
    ):
        num_processes, process_id = int(known["JAX_NUM_PROCESSES"]), int(known["JAX_PROCESS_ID"])
    before, several = (
        signal.getsignal(signal.SIGTERM),
        "all" if num_processes is None else f"all {num_processes}",
    )
    waited = f"vijax: not {several} processes came within {initialization_timeout} s"
    undo = call_before_abort(
        lambda: _end(
            f"{waited}. See that each was started and reaches {coordinator or 'process 0'}.\n"
        )
    )
    more = {"initialization_timeout": initialization_timeout, **more}
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id, **more)
    except (ValueError, TypeError) as error:
        given = f"coordinator={coordinator}, num_processes={num_processes}, process_id={process_id}"
        expected = (
            "a cluster that JAX detects, or all of coordinator=HOST:PORT, num_processes=N, "
            "process_id=I"
        )
        raise ValueError(f"coordinator: expected {expected}; got {given} ({error}).") from error
    finally:
        undo()
    if before is not None:  # JAX takes SIGTERM, and does nothing with it that vijax would see
        signal.signal(signal.SIGTERM, before)


def _check_names(more: Mapping[str, Any]) -> None:
    """Raises ValueError for JAX's own name of an argument that has another here, and for one that
    JAX does not have."""
    own = "Give it as coordinator=HOST:PORT."
    require(
        "coordinator_address" not in more,
        "coordinator_address",
        "the name coordinator",
        "JAX's own",
        own,
    )
    known = [
        name
        for name in inspect.signature(jax.distributed.initialize).parameters
        if name != "coordinator_address"
    ]
    strange = [name for name in more if name not in known]
    expected = f"an argument of jax.distributed.initialize: {', '.join(known)}"
    require(
        not strange,
        ", ".join(strange),
        expected,
        "another name",
        "Leave it out, or see how it is spelt.",
    )


def _check_address(coordinator: str | None) -> None:
    """Raises ValueError for an address without a port, also where the environment has it: JAX would
    index beyond its parts."""
    name = "coordinator" if coordinator is not None else "JAX_COORDINATOR_ADDRESS"
    address = coordinator if coordinator is not None else os.environ.get(name)
    if address is None or (
        address == "" and coordinator is None
    ):  # JAX takes an empty variable for none
        return
    host, colon, port = address.rpartition(":")
    is_port = port.isdecimal() and len(port) < 6 and 0 < int(port) < 1 << 16
    is_host = bool(host) and (":" not in host or (host.startswith("[") and host.endswith("]")))
    remedy = "Name any free port of process 0, the same in every process, such as 10.0.0.1:1234."
    require(
        bool(colon) and is_port and is_host,
        name,
        "an address and a port, HOST:PORT",
        repr(address),
        remedy,
    )


def _end(text: str) -> None:
    os.write(2, text.encode())
    os._exit(LOST)


def is_joined() -> bool:
    """True where other processes take part."""
    return jax.process_count() > 1


def any_process(asked: bool) -> bool:
    """True in every process if it is asked in any. All processes call it at the same moment of
    their program."""
    return bool(np.any(multihost_utils.process_allgather(np.bool_(asked))))


def texts(mine: str, most: int = 2048) -> list[str]:
    """The text of each process, cut to so many bytes."""
    given = np.frombuffer(mine.encode()[:most].ljust(most, b"\0"), np.uint8)
    return [
        bytes(row).rstrip(b"\0").decode(errors="ignore")
        for row in multihost_utils.process_allgather(given)
    ]


USUAL_REMEDY = "Give all the same; they read their own parts of a batch by themselves."


def require_alike(argument: str, said: Mapping[str, Any], remedy: str = USUAL_REMEDY) -> None:
    """Raises ValueError, in every process, where what they say differs: in silence they would wait
    for each other for ever, or fit a mixture of several data sets."""
    heard = [
        json.loads(text)
        for text in texts(json.dumps({name: _short(value) for name, value in said.items()}))
    ]
    strange = {
        name: k for k, other in enumerate(heard) for name in said if other[name] != heard[0][name]
    }
    name, k = next(iter(strange.items()), ("", 0))
    require(
        not strange,
        argument,
        "the same arguments and data in every process",
        f"another {name} in process {k} than in process 0",
        remedy,
    )


def from_first(tree: Any) -> Any:
    """A tree of arrays as process 0 has it: others may have rounded otherwise."""
    return multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, tree))


def digest(tree: Any) -> str:
    """A few letters that tell the numbers and the form of a tree of arrays from those of others."""
    found = hashlib.sha256(form_text(tree).encode())
    for leaf in jax.tree.leaves(tree):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()[:16]


def form_text(tree: Any) -> str:
    """The shapes and types of a tree of arrays, as text."""
    each = [f"{np.asarray(x).dtype}{list(np.shape(x))}" for x in jax.tree.leaves(tree)]
    return f"{jax.tree.structure(tree)} {' '.join(each)}"


def _short(value: Any) -> Any:
    """A number or text as it is; of an array a few letters that tell it from others."""
    if value is None or isinstance(value, str | int | float):
        return value
    array = np.asarray(value)
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]
