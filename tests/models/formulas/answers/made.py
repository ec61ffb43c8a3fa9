"""Draws made by hand, for tests of what is computed from draws."""

import numpy as np

from vijax.models.formulas.draws import Draws
from vijax.models.formulas.form import SDS


def drawn(model, more=(), sds=1.0, num_draws=7):
    """Draws of a model with independent effects of groups of these sds."""
    rng = np.random.default_rng(1)
    named = {name: 0.5 * rng.normal(size=num_draws) for name in model.density_form.labels}
    named |= dict(more)
    effects, values = {}, {}
    for factor, term in zip(model.design.factors, model.density_form.effects, strict=True):
        sd = sds * rng.uniform(0.5, 1.5, (num_draws, len(term.labels)))
        values[SDS + term.name] = sd * np.array(term.sizes) / model.density_form.units.size
        u = rng.normal(size=(num_draws, len(factor.levels), sd.shape[1]))
        effects[factor.name] = sd[:, None] * u
        named |= dict(zip(term.sd_names(), sd.T, strict=True))
    return Draws(named, effects, values)
