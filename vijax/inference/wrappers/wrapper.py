"""Wrappers of an algorithm: each changes what `init` and `step` are given, or keeps something
beside the state.

A wrapper is a frozen dataclass, equal to another with the same settings. States are not nested: a
wrapper keeps its own memory in `State.beside`, under its name, and the step inside passes that on.
`Algorithm.wrappers` lists them, the innermost first."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

from jaxtyping import PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.contract.general import constants, general
from vijax.inference.compose import Algorithm, build_algorithm
from vijax.inference.state import Info, State, check_state
from vijax.xla import by_value


@dataclasses.dataclass(frozen=True)
class Wrapper:
    """Changes nothing; a subclass overrides what it changes.

    Attributes:
      name: the place of its memory in `State.beside`; an algorithm has one wrapper of each name.
      of_groups: its memory is about single groups of the data, so its shapes depend on N, and other
          data begin it anew.
      of_globals: its memory has the shapes of the globals.
      whole_batch: it must see all of a batch.
      splits_batch: the step sees the part of a batch that one device has.
      scaled: the message of a batch must be that of all data (`vijax.inference.messages.scaled`).
      stores_globals: the state holds the globals in another form.
      stores_locals: the step finds locals in another form.
    """

    name: ClassVar[str]
    of_groups: ClassVar[bool] = False
    of_globals: ClassVar[bool] = False
    whole_batch: ClassVar[bool] = False
    splits_batch: ClassVar[bool] = False
    scaled: ClassVar[bool] = False
    stores_globals: ClassVar[bool] = False

    @property
    def stores_locals(self) -> bool:
        """False, unless overridden."""
        return False

    def check(self, alg: Algorithm) -> None:
        """Raises ValueError at an algorithm that it cannot wrap."""

    def loader(self, loader: Any, alg: Algorithm) -> Any:
        """A loader of the batches that its step wants; runs on the host."""
        return loader

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """The state of step 0."""
        return alg.init(key, batch, hyper)

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """The next state, and what the step tells."""
        return alg.step(key, state, batch)

    def lost(self, memory: PyTree) -> str:
        """A name for the content of a memory of other data, where the fit would have used it; else
        an empty text."""
        return ""

    def memory(self, state: State) -> Any:
        """Its memory. Raises ValueError at the state of an algorithm without this wrapper."""
        remedy = "Begin by alg.init, or leave the state out."
        kept = self.name in state.beside
        require(
            kept,
            "state",
            f"one with the memory of {self.name!r}",
            f"one with {sorted(state.beside)}",
            remedy,
        )
        return state.beside[self.name]


CLASHES = (
    ("whole_batch", "splits_batch"),
    ("of_globals", "stores_globals"),
    ("of_groups", "stores_locals"),
)
"""Pairs: a need of one wrapper, and the property of another that takes it away, whichever of the
two is inside."""


def wrap(alg: Algorithm, wrapper: Wrapper) -> Algorithm:
    """The algorithm in a wrapper. Raises ValueError: no algorithm, one that has such a wrapper
    already, or one that this wrapper refuses."""
    require(
        isinstance(alg, Algorithm),
        "alg",
        "an algorithm such as vijax.svi(model)",
        type(alg).__name__,
    )
    once = find_wrapper(alg, type(wrapper)) is None
    require(once, wrapper.name, "one such wrapper", "two of them", "Wrap the algorithm once.")
    for own in alg.wrappers:
        pairs = (own, wrapper), (wrapper, own)
        clash = any(
            getattr(a, takes) and getattr(b, needs) for a, b in pairs for needs, takes in CLASHES
        )
        require(
            not clash,
            wrapper.name,
            f"an algorithm without {own.name}",
            repr(own),
            "Leave one of them out.",
        )
    messages = alg.spec.messages
    expected = "an algorithm with no memory of messages"
    require(
        not wrapper.scaled or messages.num_parts is None, wrapper.name, expected, repr(messages)
    )
    wrapper.check(alg)
    init, step = (_around(kind, alg, wrapper) for kind in (_Init, _Step))
    return Algorithm(init, step, alg.spec, (*alg.wrappers, wrapper))


def generalize(alg: Algorithm) -> tuple[Algorithm, dict[str, Any]]:
    """The algorithm for `vijax.contract.general.general` of its model, in the same wrappers, and
    the arguments of its programs beside hyperparameters. An algorithm with functions of a user's
    own is returned as it is."""
    make = lambda model: functools.reduce(
        wrap, alg.wrappers, build_algorithm(alg.spec._replace(model=model))
    )
    model, more = alg.spec.model, constants(alg.spec.model)
    again = make(model)
    is_made = again.init is alg.init and again.step is alg.step
    return (make(general(model)), more) if is_made and (model.hyper or more) else (alg, {})


def find_wrapper(alg: Algorithm, kind: type[Wrapper]) -> Any:
    """The wrapper of this kind that the algorithm has, or None."""
    return next((own for own in alg.wrappers if isinstance(own, kind)), None)


@dataclasses.dataclass(frozen=True)
class _Around:
    """A function of a wrapped algorithm."""

    wrapper: Wrapper
    alg: Algorithm

    def __reduce__(self) -> tuple:
        return _around, (type(self), self.alg, self.wrapper)


class _Init(_Around):
    """`Algorithm.init`."""

    def __call__(self, key: PRNGKeyArray, batch: Any = None, hyper: Any = None) -> State:
        return self.wrapper.init(self.alg, key, batch, hyper)


class _Step(_Around):
    """`Algorithm.step`."""

    def __call__(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        return self.wrapper.step(self.alg, key, state, batch)


def _around(kind: type[_Around], alg: Algorithm, wrapper: Wrapper) -> Any:
    """One object for equal ones, which the function inside keeps."""
    return by_value.intern(alg.init if kind is _Init else alg.step, kind(wrapper, alg))
