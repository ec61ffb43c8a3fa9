"""[algorithm] of log densities: the rows of free variables, and the two methods that run to their own end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import optax

from vijax import free_algorithms, guides
from vijax.algorithm import Algorithm
from vijax.app.options import Chooser, Option
from vijax.app.typed_toml import POSITIVE, ConfigError, at_least, setting
from vijax.automatic.auto import MOST_FULL
from vijax.automatic.low_rank import rank_of
from vijax.guides import Guide
from vijax.model import Model
from vijax.models.density import Density
from vijax.objective import renyi


class Shape(NamedTuple):
    """A family of q: what makes it, and the settings that say more of it."""

    make: Callable[..., Guide]
    takes: tuple[str, ...] = ()


GUIDES = {
    "mean_field": Shape(guides.mean_field),
    "full_rank": Shape(guides.full_rank),
    "low_rank": Shape(lambda rank=10: guides.low_rank(rank), ("rank",)),
    "block": Shape(lambda blocks=(): guides.block(blocks), ("blocks",)),
    "mixture": Shape(lambda components=8: guides.mixture(components), ("components",)),
    "flow": Shape(lambda layers=10, width=32: guides.flow(layers, width), ("layers", "width")),
}
SHAPES = tuple(name for shape in GUIDES.values() for name in shape.takes)
"""Settings of guides."""


def read_by(model: Model, rows: Any) -> Any:
    """Rows as a model reads them: none of a density without data, whatever its file made of them."""
    return None if isinstance(model, Density) and model.log_lik is None else rows


def _guide(name: str | None, given: dict[str, Any]) -> Guide | None:
    """The guide, with the settings that are its own taken from those given."""
    more = {key: given.pop(key) for key in SHAPES if key in given}
    for key in more:
        if name is None or key not in GUIDES[name].takes:
            of = next(other for other, shape in GUIDES.items() if key in shape.takes)
            raise ConfigError(f'algorithm.{key}: expected algorithm.guide = "{of}" beside it, got {name or "no guide"}')
    return None if name is None else GUIDES[name].make(**more)


def _ngvi(model: Density, guide: str | None = None, **choices: Any) -> Algorithm:
    return free_algorithms.ngvi(model, guide=_guide(guide, choices), **choices)


def _advi(model: Density, alpha: float | None = None, **choices: Any) -> Algorithm:
    return free_algorithms.advi(model, objective=None if alpha is None else renyi(alpha), **choices)


def _by_adam(row: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    def make(model: Density, guide: str | None = None, learning_rate: float = 0.01, **choices: Any) -> Algorithm:
        shape = _guide(guide, choices)
        return row(model, guide=shape, optimizer=optax.adam(learning_rate), **choices)

    return make


def _ends_full(model: Density, **choices: Any) -> Algorithm:
    """The algorithm of the normals that `vijax.auto` returns: its state is what a checkpoint holds. Where a mixture was
    kept, `vijax.app.kept_mixture` says so."""
    del choices
    if model.variables.dim <= MOST_FULL:
        return _framed(model, guides.full_rank())
    return _framed(model, guides.mean_field(), rank_of(model.variables.dim))


def _ends_diagonal(model: Density, **choices: Any) -> Algorithm:
    """Likewise of `vijax.dadvi`."""
    del choices
    return _framed(model, guides.mean_field())


def _framed(model: Density, guide: Guide, directions: int = 0) -> Algorithm:
    return free_algorithms.ngvi(model.with_guide(guide, is_framed=True, num_directions=directions))


@dataclasses.dataclass(frozen=True)
class DensityAlgorithm(Chooser):
    """[algorithm]: one row of the table of algorithms of free variables."""

    name: Literal["auto", "dadvi", "ngvi", "advi", "bbvi"] = setting(
        "auto", "auto chooses all and stops by itself, as dadvi does; the others take fit.num_epochs passes"
    )
    guide: Literal["mean_field", "full_rank", "low_rank", "block", "mixture", "flow"] | None = setting(
        None, "ngvi, advi, bbvi: family of q; unset: full_rank for ngvi, else mean_field"
    )
    rank: int | None = setting(None, "guide low_rank, of advi: columns of the factor; unset: 10", at_least(1))
    blocks: tuple[tuple[str, ...], ...] | None = setting(
        None, 'guide block: variables that share a block, as in [["slope", "level"]]; unset: each is one'
    )
    components: int | None = setting(None, "guide mixture: normals; unset: 8", at_least(1))
    layers: int | None = setting(None, "guide flow, of advi: coupling layers; unset: 10", at_least(1))
    width: int | None = setting(None, "guide flow: units of a hidden layer of their networks; unset: 32", at_least(1))
    num_samples: int | None = setting(None, "ngvi, advi, bbvi: draws a step; unset: 32, 1, 64", at_least(1))
    nats: float | None = setting(None, "ngvi: no step goes further than this; unset: 1", POSITIVE)
    alpha: float | None = setting(None, "advi: order of the Renyi bound of its draws; 0 weighs them by importance")
    learning_rate: float | None = setting(None, "advi, bbvi: of Adam; unset: 0.01", POSITIVE)
    num_starts: int | None = setting(None, "auto: searches for modes, side by side; unset: 16", at_least(1))
    max_draws: int | None = setting(None, "auto: most fixed draws; unset: 2048", at_least(8))
    max_gradients: int | None = setting(None, "auto: most gradients; unset: 3000, more for many variables", at_least(1))
    richer: bool | None = setting(
        None, "auto: fit a mixture of normals too, kept where its bound is higher; unset: where one normal misfits"
    )
    num_draws: int | None = setting(None, "dadvi: fixed draws; unset: 30", at_least(2))
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "auto": Option(_ends_full, ("num_starts", "max_draws", "max_gradients", "richer")),
        "dadvi": Option(_ends_diagonal, ("num_draws",)),
        "ngvi": Option(_ngvi, ("guide", *SHAPES, "num_samples", "nats")),
        "advi": Option(_by_adam(_advi), ("guide", *SHAPES, "num_samples", "alpha", "learning_rate")),
        "bbvi": Option(_by_adam(free_algorithms.bbvi), ("guide", *SHAPES, "num_samples", "learning_rate")),
    }
