"""The models of the command line, a file each: see "How to put a model on the command line" in CONTRIBUTING.md."""

from vijax.app.catalogue import (
    ard_regression,
    dp_mixture,
    factor_analysis,
    gp,
    hmm,
    lda,
    linear_models,
    mixture,
)
from vijax.app.listing import Listing

LISTINGS: dict[str, Listing] = {
    listing.name: listing
    for listing in (
        lda.LISTING,
        mixture.LISTING,
        dp_mixture.LISTING,
        hmm.LISTING,
        factor_analysis.LISTING,
        ard_regression.LISTING,
        gp.LISTING,
        linear_models.GLM,
        linear_models.LOGISTIC,
    )
}
"""By `model.name`."""
