"""Whether a fit by steps runs away: of an improper density the bound grows without limit, and no step ever says so.

Of an energy with free variables beside conjugate ones, along the free ones: q of the others stays, and locals are
found anew by their E-step. What is looked at is in `vijax.automatic.runaway`.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Bool, PRNGKeyArray, PyTree

from vijax.automatic.gaussian import Ended
from vijax.automatic.report import Estimate, Report
from vijax.automatic.runaway import ASKED, grows_along
from vijax.automatic.target import OfFree, Target
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper
from vijax.families import Family
from vijax.models.energies.density import point

WORDS = (
    "Do not use this fit: the bound grows without limit along {along}. The density is improper. Give every variable a "
    "proper prior."
)
NO_BOUND = Estimate(np.inf, np.nan)


def report(
    model: OfFree, hyper: Hyper, q: Family, batch: Minibatch, key: PRNGKeyArray, *given: PyTree
) -> Report | None:
    """That the bound grows without limit, and along which variables; None where that is not seen."""
    names = runs_away(model, hyper, q, batch, key, *given)
    if not names:
        return None
    along = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return Report(NO_BOUND, (), np.nan, np.nan, str(Ended.UNBOUNDED), WORDS.format(along=along), usable=False)


def runs_away(model: OfFree, hyper: Hyper, q: Family, batch: Minibatch, key: PRNGKeyArray, *given: PyTree) -> list[str]:
    """The variables along which the bound grows without limit, by name; none where it is not known to.

    Args:
      model: the density, or the bound of an energy.
      hyper: its frame, if it has one.
      q: where a fit by steps ended.
      batch: groups on which it is judged.
      key: of draws.
      given: what else the bound reads.
    """
    x = np.asarray(jax.vmap(lambda z: point(hyper, z))(q.sample(key, (ASKED,))), np.float64)
    return model.variables.names_at(grows_along(_target(model, batch, *given), x))


def _target(model: OfFree, batch: Minibatch, *given: PyTree) -> Target:
    """Of the groups of a batch, for all."""
    leaves = jax.tree.leaves(batch.data)
    kept: Bool[np.ndarray, " groups"] = (
        np.ones(len(leaves[0]), bool) if batch.weights is None else np.asarray(batch.weights) > 0
    )
    groups = jax.tree.map(lambda a: np.asarray(a)[kept], batch.data)
    scale = 1.0 if batch.num_groups is None else float(batch.num_groups) / int(kept.sum())
    return Target(model, groups, scale, given)
