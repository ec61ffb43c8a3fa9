"""How many programs this process has compiled, and which."""

import jax

_NAMES: list[str] = []


def compiled() -> int:
    """So far; those found in the cache on disk included."""
    return len(_NAMES)


def names_since(count: int) -> list[str]:
    """Of the functions that were compiled after so many, where jax says so: `add` is an operation
    outside of any."""
    return [name.removeprefix("jit(").removesuffix(")") for name in _NAMES[count:]]


def _listen(event: str, seconds: float, **more: object) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _NAMES.append(str(more.get("fun_name")))


jax.monitoring.register_event_duration_secs_listener(_listen)
