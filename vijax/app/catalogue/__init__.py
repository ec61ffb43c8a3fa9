"""The models of the command line, a file each: see "How to put a model on the command line" in CONTRIBUTING.md."""

from vijax.app.catalogue import (
    ard_regression,
    ctm,
    density,
    dp_mixture,
    factor_analysis,
    factorial_hmm,
    gap_nmf,
    gp,
    hierarchical,
    hmm,
    lda,
    linear_models,
    mixture,
    plsa,
    state_space,
    stochastic_block_model,
    svae,
    vae,
)
from vijax.app.kinds.listing import Listing

LISTINGS: dict[str, Listing] = {
    listing.name: listing
    for listing in (
        lda.LISTING,
        ctm.LISTING,
        plsa.PLSA,
        plsa.SIMPLE_MIXTURE,
        mixture.LISTING,
        dp_mixture.LISTING,
        hmm.LISTING,
        factorial_hmm.LISTING,
        state_space.LISTING,
        stochastic_block_model.LISTING,
        factor_analysis.LISTING,
        gap_nmf.LISTING,
        ard_regression.LISTING,
        hierarchical.LISTING,
        gp.LISTING,
        linear_models.GLM,
        linear_models.LOGISTIC,
        density.LISTING,
        vae.LISTING,
        svae.LISTING,
    )
}
"""By `model.name`."""
