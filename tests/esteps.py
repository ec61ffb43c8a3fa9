"""The registry of E-steps for mixed membership. A row here runs under every algorithm
(tests/models/documents/test_lda.py), keeps to the contract (tests/inference/estep/test_contract.py), and by
what it says of itself goes on from visit to visit (tests/inference/test_warm.py) and may be
believed where it is remembered (tests/inference/test_parts.py)."""

import pytest

from vijax.inference import estep

ESTEPS = {
    "mean_field": estep.mean_field(max_iters=200, tol=1e-5),
    "gibbs": estep.gibbs(num_sweeps=4, burn_in=2),
    "gibbs at once": estep.gibbs(num_sweeps=4, burn_in=2, tokens="at_once"),
    "cvb0": estep.cvb0(max_iters=100, tol=1e-5),
}
GOING_ON = [name for name, step in ESTEPS.items() if step.goes_on]

EACH = [
    pytest.param(name, marks=pytest.mark.slow if name == "gibbs at once" else (), id=name)
    for name in ESTEPS
]
"""Names as parameters of a test; one that is dear to compile is for the slow part."""
