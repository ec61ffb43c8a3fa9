"""Whether a fit by steps runs away: of an improper density the bound grows without limit, and no step ever says so.

Of an energy with free variables beside conjugate ones, along the free ones: q of the others stays, and locals are
found anew by their E-step. What is looked at is in `vijax.automatic.runaway`.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.automatic.gaussian import Ended
from vijax.automatic.report import Estimate, Report
from vijax.automatic.runaway import ASKED, grows_along
from vijax.automatic.target import OfFree, Target
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, Model
from vijax.families import Point, Product
from vijax.inference.guides import Z

WORDS = (
    "Do not use this fit: the bound grows without limit along {along}. The density is improper. Give every variable a "
    "proper prior."
)
NO_BOUND = Estimate(np.inf, np.nan)


def report(model: Model, hyper: Hyper, posterior: Product, batch: Minibatch, key: PRNGKeyArray) -> Report | None:
    """That the bound of a fit by steps grows without limit, and along which variables; None where that is not seen.

    Args:
      model: with free variables.
      hyper: where the fit ended,
      posterior: and q of the globals.
      batch: groups on which it is judged.
      key: of draws.
    """
    free, q = model.free, posterior[Z]
    found = None if free is None else free.given_others(model, hyper, posterior, key)
    if free is None or found is None or isinstance(q, Point):
        return None
    bound, given = found
    names = runs_away(bound, jax.vmap(lambda z: free.point(hyper, z))(q.sample(key, (ASKED,))), batch, *given)
    if not names:
        return None
    along = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return Report(NO_BOUND, (), np.nan, np.nan, str(Ended.UNBOUNDED), WORDS.format(along=along), usable=False)


def runs_away(bound: OfFree, x: Float[Array, "draws D"], batch: Minibatch, *given: PyTree) -> list[str]:
    """The variables along which a bound grows without limit from draws of q, by name; none where it is not known to."""
    return bound.variables.names_at(grows_along(_target(bound, batch, *given), np.asarray(x, np.float64)))


def _target(model: OfFree, batch: Minibatch, *given: PyTree) -> Target:
    """Of the groups of a batch, for all."""
    leaves = jax.tree.leaves(batch.data)
    kept: Bool[np.ndarray, " groups"] = (
        np.ones(len(leaves[0]), bool) if batch.weights is None else np.asarray(batch.weights) > 0
    )
    groups = jax.tree.map(lambda a: np.asarray(a)[kept], batch.data)
    scale = 1.0 if batch.num_groups is None else float(batch.num_groups) / int(kept.sum())
    return Target(model, groups, scale, given)
