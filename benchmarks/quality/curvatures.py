"""Curvatures by Hessians or by slopes: errors of q(z) of documents beside those of many draws.

    python benchmarks/quality/curvatures.py

Documents of 30, 100 and 300 words, of 20 known topics. Errors are of the E-step of
`vijax.estep.proximal_gradient` over six keys, beside 1,024 draws averaged over nine: of means in
standard deviations, and of the logarithm of these."""

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.inference.estep import GaussianLocals, LogisticNormal

TOPICS, WORDS, DOCUMENTS, KEYS = 20, 2_000, 40, 6


def drawn(count, **more):
    return vi.expectation.vector_monte_carlo(count, antithetic=True, matched=True, **more)


WAYS = {
    "64 draws, Hessians": drawn(64),
    "32 draws, Hessians": drawn(32),
    "16 draws, Hessians": drawn(16),
    "64 draws, slopes": drawn(64, curvature="slopes"),
    "128 draws, slopes": drawn(128, curvature="slopes"),
    "Laplace": vi.expectation.laplace(),
}


def problem(words, rng):
    """Documents of so many words, in the slots of those that they have."""
    topics, root = (
        rng.dirichlet(np.full(WORDS, 0.05), TOPICS),
        0.5 * rng.normal(size=(TOPICS, TOPICS)),
    )
    cov = 4 / TOPICS * root @ root.T + 0.5 * np.eye(TOPICS)
    odds = np.exp(rng.multivariate_normal(np.zeros(TOPICS), cov, DOCUMENTS))
    counts = np.stack(
        [rng.multinomial(words, share @ topics) for share in odds / odds.sum(1, keepdims=True)]
    )
    slots = np.argsort(counts == 0, axis=1, kind="stable")[:, : (counts > 0).sum(1).max()]
    likelihood = topics.T[slots]
    likelihood /= likelihood.max(2, keepdims=True)
    given = likelihood, np.take_along_axis(counts, slots, 1), np.zeros(TOPICS), np.linalg.inv(cov)
    return LogisticNormal(*(jnp.asarray(x, jnp.float32) for x in given))


def found(problem, expectation, key, refine=0):
    """Means and standard deviations of q(z)."""
    zeros = jnp.zeros((DOCUMENTS, TOPICS))
    cold = GaussianLocals(
        zeros, jnp.zeros((DOCUMENTS, TOPICS, TOPICS)), jnp.zeros(DOCUMENTS, jnp.int32)
    )
    estep = vi.estep.proximal_gradient(expectation, refine=refine)
    local = jax.jit(estep.logistic_normal)(problem, cold, jax.random.key(key))
    cov = np.linalg.inv(np.asarray(local.site + problem.precision, float))
    return np.asarray(local.mean), np.sqrt(np.diagonal(cov, axis1=1, axis2=2))


def main():
    rms = lambda x: np.sqrt(np.mean(x**2))
    print(
        "| words | expectation | error of means | its bias | of log sds | its bias "
        "|\n|---|---|---|---|---|---|"
    )
    for words in (30, 100, 300):
        documents = problem(words, np.random.default_rng(words))
        mean, sd = found(documents, drawn(1024), 99, refine=8)
        for name, expectation in WAYS.items():
            means, sds = zip(
                *(found(documents, expectation, key) for key in range(KEYS)), strict=True
            )
            off, wide = (np.stack(means) - mean) / sd, np.log(np.stack(sds) / sd)
            errors = " | ".join(f"{rms(x):.3f} | {rms(x.mean(0)):.3f}" for x in (off, wide))
            print(f"| {words} | {name} | {errors} |", flush=True)


if __name__ == "__main__":
    main()
