"""Several processes of one fit: how they join, and what they must agree on."""

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
"""Seconds without a sign of life after which JAX itself ends all processes; a watch
(`vijax.scale.watch`) knows it sooner."""


WAIT_S = 300
"""Seconds for which a joining process waits for the others by default."""


def initialize(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    initialization_timeout: int = WAIT_S,
    **more: Any,
) -> None:
    """Joins this process with others that run the same program, by `jax.distributed.initialize`.

    Call it in every process before anything is computed. It needs no arguments inside `srun`, Open
    MPI, Kubernetes and other clusters that JAX detects, or if JAX_COORDINATOR_ADDRESS,
    JAX_NUM_PROCESSES and JAX_PROCESS_ID are set. Then `vijax.fit(..., mesh=vijax.scale.mesh())`,
    with the same arguments in every process, is one fit on all devices
    (`docs/how-to/cluster.md`).

    Args:
      coordinator: address and port of process 0, as 10.0.0.1:1234; any free port.
      num_processes: number of processes.
      process_id: number of this one, from 0.
      initialization_timeout: seconds to wait for the other processes. After that this process
        ends with a sentence and exit code 5; JAX's own client ends it, and Python can catch
        nothing.
      **more: other arguments of `jax.distributed.initialize`.

    Raises:
      ValueError: only some of the first three arguments are given, and JAX detects no cluster; the
        address has no port; neither this function nor JAX has an argument.
      RuntimeError: it is called twice, or JAX has computed something before.
    """
    _check_names(more)
    _check_address(coordinator)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if "heartbeat_timeout_seconds" in inspect.signature(jax.distributed.initialize).parameters:
        more = {"heartbeat_timeout_seconds": HEARTBEAT_S, **more}
    environment = {"JAX_NUM_PROCESSES", "JAX_PROCESS_ID"}
    if num_processes is None and process_id is None and environment <= set(os.environ):
        num_processes = int(os.environ["JAX_NUM_PROCESSES"])
        process_id = int(os.environ["JAX_PROCESS_ID"])
    handler = signal.getsignal(signal.SIGTERM)
    more = {"initialization_timeout": initialization_timeout, **more}
    undo = call_before_abort(
        lambda: _end(_timeout_text(coordinator, num_processes, initialization_timeout))
    )
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id, **more)
    except (ValueError, TypeError) as error:
        got = f"coordinator={coordinator}, num_processes={num_processes}, process_id={process_id}"
        expected = (
            "a cluster that JAX detects, or all of coordinator=HOST:PORT, num_processes=N, "
            "process_id=I"
        )
        raise ValueError(f"coordinator: expected {expected}; got {got} ({error}).") from error
    finally:
        undo()
    if handler is not None:  # JAX takes SIGTERM, and does nothing with it that vijax would see
        signal.signal(signal.SIGTERM, handler)


def _timeout_text(coordinator: str | None, num_processes: int | None, timeout: int) -> str:
    several = "all" if num_processes is None else f"all {num_processes}"
    return (
        f"vijax: not {several} processes came within {timeout} s. See that each was started and "
        f"reaches {coordinator or 'process 0'}.\n"
    )


def _check_names(more: Mapping[str, Any]) -> None:
    """Raises ValueError for JAX's own name of an argument that has another name here, and for a
    name that JAX does not have."""
    require(
        "coordinator_address" not in more,
        "coordinator_address",
        "the name coordinator",
        "JAX's own",
        "Give it as coordinator=HOST:PORT.",
    )
    parameters = inspect.signature(jax.distributed.initialize).parameters
    names = [name for name in parameters if name != "coordinator_address"]
    unknown = [name for name in more if name not in names]
    require(
        not unknown,
        ", ".join(unknown),
        f"an argument of jax.distributed.initialize: {', '.join(names)}",
        "another name",
        "Leave it out, or see how it is spelt.",
    )


def _check_address(coordinator: str | None) -> None:
    """Raises ValueError for an address without a port, also in the environment, before JAX fails."""
    name = "coordinator"
    address: str | None = coordinator
    if coordinator is None:
        name = "JAX_COORDINATOR_ADDRESS"
        address = os.environ.get(name) or None  # for JAX an empty variable is none
    if address is None:
        return
    host, colon, port = address.rpartition(":")
    is_port = port.isdecimal() and len(port) < 6 and 0 < int(port) < 1 << 16
    is_host = bool(host) and (":" not in host or (host.startswith("[") and host.endswith("]")))
    remedy = "Name any free port of process 0, the same in every process, such as 10.0.0.1:1234."
    is_complete = bool(colon) and is_port and is_host
    require(is_complete, name, "an address and a port, HOST:PORT", repr(address), remedy)


def _end(text: str) -> None:
    os.write(2, text.encode())
    os._exit(LOST)


def is_joined() -> bool:
    """True if other processes take part."""
    return jax.process_count() > 1


def any_process(asked: bool) -> bool:
    """True in every process if `asked` is true in any. All processes must call it at the same point
    of their program."""
    return bool(np.any(multihost_utils.process_allgather(np.bool_(asked))))


def texts(mine: str, most: int = 2048) -> list[str]:
    """The text of each process, cut to `most` bytes."""
    row = np.frombuffer(mine.encode()[:most].ljust(most, b"\0"), np.uint8)
    rows = multihost_utils.process_allgather(row)
    return [bytes(row).rstrip(b"\0").decode(errors="ignore") for row in rows]


USUAL_REMEDY = "Give all the same; they read their own parts of a batch by themselves."


def require_alike(argument: str, mine: Mapping[str, Any], remedy: str = USUAL_REMEDY) -> None:
    """Raises ValueError, in every process, if the values of the processes differ. Without it they
    would wait for each other for ever, or fit a mixture of several data sets."""
    short = json.dumps({name: _shorten(value) for name, value in mine.items()})
    by_process = [json.loads(text) for text in texts(short)]
    differences = {
        name: k
        for k, values in enumerate(by_process)
        for name in mine
        if values[name] != by_process[0][name]
    }
    name, k = next(iter(differences.items()), ("", 0))
    require(
        not differences,
        argument,
        "the same arguments and data in every process",
        f"another {name} in process {k} than in process 0",
        remedy,
    )


def from_first(tree: Any) -> Any:
    """A tree of arrays as process 0 has it: other processes may have rounded otherwise."""
    return multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, tree))


def digest(tree: Any) -> str:
    """16 letters that depend on the numbers and the form of a tree of arrays."""
    checksum = hashlib.sha256(form_text(tree).encode())
    for leaf in jax.tree.leaves(tree):
        checksum.update(np.ascontiguousarray(leaf).tobytes())
    return checksum.hexdigest()[:16]


def form_text(tree: Any) -> str:
    """The shapes and types of a tree of arrays, as text."""
    arrays = [f"{np.asarray(x).dtype}{list(np.shape(x))}" for x in jax.tree.leaves(tree)]
    return f"{jax.tree.structure(tree)} {' '.join(arrays)}"


def _shorten(value: Any) -> Any:
    """A number or text as it is; 16 letters for an array."""
    if value is None or isinstance(value, str | int | float):
        return value
    array = np.asarray(value)
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]
