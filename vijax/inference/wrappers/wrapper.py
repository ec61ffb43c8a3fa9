"""The base class of wrappers. A wrapper of an algorithm changes the arguments of `init` and `step`,
or keeps a memory beside the state.

It is a frozen dataclass, equal to another with the same settings. States are not nested: a wrapper
keeps its memory in `State.beside`, under its name, and the step inside passes it on.
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
    """A wrapper that changes nothing; subclasses override methods.

    Attributes:
      name: the key of its memory in `State.beside`; an algorithm has at most one wrapper of a name.
      of_groups: its memory is about single groups of the data, so its shapes depend on N, and it
        starts again with other data.
      of_globals: its memory has the shapes of the globals.
      whole_batch: it must see all of a batch.
      splits_batch: the step sees only the part of a batch on one device.
      scaled: the message must be a scaled one (`vijax.inference.messages.scaled`), without memory.
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
        """A loader of the batches for its step; runs on the host."""
        return loader

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """The state of step 0."""
        return alg.init(key, batch, hyper)

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """The next state, and the diagnostics of the step."""
        return alg.step(key, state, batch)

    def describe_loss(self, memory: PyTree) -> str:
        """The content of a memory that is lost with other data, in words; "" if nothing is lost."""
        return ""

    def memory(self, state: State) -> Any:
        """Its memory. Raises ValueError at the state of an algorithm without this wrapper."""
        has_memory = self.name in state.beside
        expected = f"one with the memory of {self.name!r}"
        remedy = "Begin by alg.init, or leave the state out."
        require(has_memory, "state", expected, f"one with {sorted(state.beside)}", remedy)
        return state.beside[self.name]


CLASHES = (
    ("whole_batch", "splits_batch"),
    ("of_globals", "stores_globals"),
    ("of_groups", "stores_locals"),
)
"""Pairs: a need of one wrapper, and the property of another wrapper that prevents it, in either
order of wrapping."""


def wrap(alg: Algorithm, wrapper: Wrapper) -> Algorithm:
    """The algorithm in a wrapper. Raises ValueError at something else than an algorithm, at an
    algorithm that has a wrapper of this kind, and at one that this wrapper refuses."""
    check_algorithm(alg)
    is_first = find_wrapper(alg, type(wrapper)) is None
    require(is_first, wrapper.name, "one such wrapper", "two of them", "Wrap the algorithm once.")
    for inner in alg.wrappers:
        expected = f"an algorithm without {inner.name}"
        remedy = "Leave one of them out."
        require(not _clash(inner, wrapper), wrapper.name, expected, repr(inner), remedy)
    messages = alg.spec.messages
    serves = not wrapper.scaled or messages.num_parts is None
    expected = "an algorithm with no memory of messages"
    require(serves, wrapper.name, expected, repr(messages))
    wrapper.check(alg)
    init = _wrap_function(_Init, alg, wrapper)
    step = _wrap_function(_Step, alg, wrapper)
    return Algorithm(init, step, alg.spec, (*alg.wrappers, wrapper))


def check_algorithm(alg: Any) -> None:
    """Raises ValueError unless `alg` is an `Algorithm`."""
    expected = "an algorithm such as vijax.svi(model)"
    require(isinstance(alg, Algorithm), "alg", expected, type(alg).__name__)


def _clash(one: Wrapper, other: Wrapper) -> bool:
    """True if a property of either wrapper prevents a need of the other."""
    for a, b in ((one, other), (other, one)):
        if any(getattr(a, prevents) and getattr(b, needs) for needs, prevents in CLASHES):
            return True
    return False


def generalize(alg: Algorithm) -> tuple[Algorithm, dict[str, Any]]:
    """The algorithm for `vijax.contract.general.general` of its model, in the same wrappers; and
    the arguments of its programs beside hyperparameters. An algorithm whose functions were replaced
    by a user is returned unchanged."""

    def make(model: Any) -> Algorithm:
        return functools.reduce(wrap, alg.wrappers, build_algorithm(alg.spec._replace(model=model)))

    model = alg.spec.model
    arguments = constants(model)
    rebuilt = make(model)
    is_original = rebuilt.init is alg.init and rebuilt.step is alg.step
    if is_original and (model.hyper or arguments):
        return make(general(model)), arguments
    return alg, {}


def find_wrapper(alg: Algorithm, kind: type[Wrapper]) -> Any:
    """The wrapper of this kind that the algorithm has, or None."""
    return next((wrapper for wrapper in alg.wrappers if isinstance(wrapper, kind)), None)


@dataclasses.dataclass(frozen=True)
class _WrapperFunction:
    """A function of a wrapped algorithm."""

    wrapper: Wrapper
    alg: Algorithm

    def __reduce__(self) -> tuple:
        return _wrap_function, (type(self), self.alg, self.wrapper)


class _Init(_WrapperFunction):
    """`Algorithm.init`."""

    def __call__(self, key: PRNGKeyArray, batch: Any = None, hyper: Any = None) -> State:
        return self.wrapper.init(self.alg, key, batch, hyper)


class _Step(_WrapperFunction):
    """`Algorithm.step`."""

    def __call__(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        return self.wrapper.step(self.alg, key, state, batch)


def _wrap_function(kind: type[_WrapperFunction], alg: Algorithm, wrapper: Wrapper) -> Any:
    """The function of a wrapped algorithm. Equal ones are one object, kept by the function
    inside."""
    return by_value.intern(alg.init if kind is _Init else alg.step, kind(wrapper, alg))
