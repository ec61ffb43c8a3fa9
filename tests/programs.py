"""How many programs this process has compiled."""

import jax

_SECONDS: list[float] = []


def compiled() -> int:
    """So far; those found in the cache on disk included."""
    return len(_SECONDS)


def _listen(event: str, seconds: float, **more: object) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _SECONDS.append(seconds)


jax.monitoring.register_event_duration_secs_listener(_listen)
