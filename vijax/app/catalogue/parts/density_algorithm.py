"""The section [algorithm] of log densities: free variables, and methods that stop by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import optax

from vijax import free_algorithms
from vijax.app.settings.options import chooser, constructor_settings, unset
from vijax.app.settings.typed_toml import ConfigError, Entry
from vijax.arguments import POSITIVE, Argument, read_arguments
from vijax.automatic.auto import MOST_FULL, auto
from vijax.automatic.dadvi import dadvi
from vijax.automatic.low_rank import choose_rank
from vijax.contract.model import Model
from vijax.contract.objective import renyi
from vijax.fitting.result import Fit
from vijax.inference import guides
from vijax.inference.compose import Algorithm
from vijax.inference.guides import Guide
from vijax.models.energies.density import with_guide

METHODS: dict[str, Callable[..., Fit]] = {"auto": auto, "dadvi": dadvi}
"""Methods that stop by themselves, by `algorithm.name`."""
BLOCKS = Argument(
    tuple[tuple[str, ...], ...],
    None,
    'variables that share a block, as in [["slope", "level"]]; unset: each is one',
    None,
)
GUIDES: dict[str, tuple[Callable[..., Guide], dict[str, Argument]]] = {
    "mean_field": (guides.mean_field, {}),
    "full_rank": (guides.full_rank, {}),
    "low_rank": (guides.low_rank, constructor_settings(guides.low_rank)),
    "block": (lambda blocks=(): guides.block(blocks), {"blocks": BLOCKS}),
    "mixture": (guides.mixture, constructor_settings(guides.mixture)),
    "flow": (guides.flow, constructor_settings(guides.flow)),
}
"""Families of q: the constructor and the settings of each."""
SHAPES = {
    key: argument._replace(
        default=None, meaning=f"guide {name}: {argument.meaning}{unset({name: argument})}"
    )
    for name, (_, settings) in GUIDES.items()
    for key, argument in settings.items()
}
"""Settings of guides."""


def model_rows(model: Model, rows: Any) -> Any:
    """Rows as a model reads them: None for a density without data."""
    if model.free is None or model.free.reads_data:
        return rows
    return None


def _guide(name: str | None, arguments: dict[str, Any]) -> Guide | None:
    """The guide; removes its settings from `arguments`."""
    settings = {key: arguments.pop(key) for key in SHAPES if key in arguments}
    for key in settings:
        if name is None or key not in GUIDES[name][1]:
            owner = next(guide for guide, (_, names) in GUIDES.items() if key in names)
            raise ConfigError(
                f'algorithm.{key}: expected algorithm.guide = "{owner}" beside it, got '
                f"{name or 'no guide'}"
            )
    return None if name is None else GUIDES[name][0](**settings)


def _ngvi(model: Model, guide: str | None = None, **choices: Any) -> Algorithm:
    return free_algorithms.ngvi(model, guide=_guide(guide, choices), **choices)


def _advi(model: Model, alpha: float | None = None, **choices: Any) -> Algorithm:
    return free_algorithms.advi(model, objective=None if alpha is None else renyi(alpha), **choices)


def _with_adam(row: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    def make(
        model: Model, guide: str | None = None, learning_rate: float = 0.01, **choices: Any
    ) -> Algorithm:
        shape = _guide(guide, choices)
        return row(model, guide=shape, optimizer=optax.adam(learning_rate), **choices)

    return make


def _ends_full(model: Model, **choices: Any) -> Algorithm:
    """The algorithm of the normals that `vijax.auto` returns: checkpoints hold its state (or that
    of a mixture, see `vijax.app.folder.at_once`)."""
    dim = model.log_density.variables.dim
    if dim <= MOST_FULL:
        return _framed_normal(model, guides.full_rank())
    return _framed_normal(model, guides.mean_field(), choose_rank(dim))


def _ends_diagonal(model: Model, **choices: Any) -> Algorithm:
    """The algorithm of the normals that `vijax.dadvi` returns."""
    return _framed_normal(model, guides.mean_field())


def _framed_normal(model: Model, guide: Guide, directions: int = 0) -> Algorithm:
    return free_algorithms.ngvi(with_guide(model, guide, is_framed=True, num_directions=directions))


GUIDE = Argument(
    Literal[tuple(GUIDES)], None, "family of q; unset: full_rank for ngvi, else mean_field", None
)
RATE = Argument(float, 0.01, "rate of Adam", POSITIVE)
ORDER = read_arguments(renyi)["alpha"]._replace(default=None)


def _row(row: Callable[..., Any], **more: Argument) -> dict[str, Argument]:
    """The settings of a row of free variables: of its guide, its own, and `more`."""
    return {"guide": GUIDE, **SHAPES, **constructor_settings(row), **more}


DensityAlgorithm = chooser(
    "[algorithm]: one row of the table of algorithms of free variables.",
    "auto",
    "auto chooses all and stops by itself, as dadvi does; the others take fit.num_epochs passes",
    auto=(_ends_full, constructor_settings(auto, ("batch_size",))),
    dadvi=(_ends_diagonal, constructor_settings(dadvi)),
    ngvi=(_ngvi, _row(free_algorithms.ngvi)),
    advi=(_with_adam(_advi), _row(free_algorithms.advi, alpha=ORDER, learning_rate=RATE)),
    bbvi=(_with_adam(free_algorithms.bbvi), _row(free_algorithms.bbvi, learning_rate=RATE)),
)


NOT_BY_PARTS = (
    "the start, check and page of a density read all rows; in Python: vijax.fit(vijax.advi(model), "
    "vijax.data.rows(...), batch_size=1000)"
)
"""Why rows of a log density cannot be read by parts, for `Listing.not_by_parts`."""


# --- methods that stop by themselves --------------------------------------------------------------
def is_at_once(config: Any) -> bool:
    """True if the algorithm stops by itself, after a number of steps that it chooses."""
    return config.algorithm.name in METHODS


def check_at_once_settings(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings [fit] that mean nothing to a method that stops by itself
    (the number of passes may be ignored)."""
    name = config.algorithm.name
    if not is_at_once(config):
        return
    starts = "dadvi has sixteen starts"
    if name == "auto":
        starts = "auto has starts of its own: algorithm.num_starts"
    for key, is_set, reason in (
        ("restarts", config.fit.restarts > 1, starts),
        ("devices", config.fit.devices is not None, f"{name} computes on one device"),
        (
            "convergence",
            config.fit.convergence is not None,
            f"{name} judges by itself when it has converged",
        ),
        (
            "batch_size",
            name == "dadvi" and config.fit.batch_size is not None,
            "dadvi reads all the data at every step",
        ),
    ):
        if is_set:
            origin = entries[f"fit.{key}"].origin
            raise ConfigError(f"{origin}: fit.{key}: not for algorithm.name = {name}: {reason}")
