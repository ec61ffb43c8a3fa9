"""Held-out log density of Gaussian mixtures, ours and scikit-learn's at equal restarts, on
scikit-learn's data.

    python benchmarks/sklearn_mixtures.py

Five folds, three seeds; columns are standardised on the training rows (pixels of digits are divided
by 16, some of them being constant). Both get the same numbers of components, starts and steps, and
the same `reg_covar`. Of the variational mixtures our score is the exact predictive density,
scikit-learn's another expression; so the densities at the point estimates of both are there too,
which compare fit with fit."""

import argparse
import time
import warnings

import numpy as np
from scipy import linalg, special
from sklearn import datasets, mixture
from sklearn.model_selection import KFold

import vijax.sklearn as ours

SETS = {
    "iris": (datasets.load_iris, 3),
    "wine": (datasets.load_wine, 3),
    "digits": (datasets.load_digits, 10),
}
KINDS = ("full", "tied", "diag", "spherical")


def scaled(name, train, test):
    if name == "digits":
        return train / 16, test / 16
    mean, spread = train.mean(0), train.std(0)
    return (train - mean) / spread, (test - mean) / spread


def at_point(estimator, X):
    """log sum_k weight_k N(x; mean_k, covariance_k) at an estimator's point estimates."""
    matrices = estimator.covariances_
    if estimator.covariance_type == "tied":
        matrices = [matrices] * len(estimator.means_)
    eye = np.eye(X.shape[1])
    if estimator.covariance_type in ("diag", "spherical"):
        matrices = [eye * row for row in matrices]
    parts = [log_normal(X, m, c) for m, c in zip(estimator.means_, matrices, strict=True)]
    return special.logsumexp(np.stack(parts, 1), axis=1, b=estimator.weights_).mean()


def log_normal(X, mean, covariance):
    """By a Cholesky factor: SciPy's own refuses covariances as uneven as those of constant
    pixels."""
    factor = np.linalg.cholesky(covariance)
    z = linalg.solve_triangular(factor, (X - mean).T, lower=True)
    return (
        -0.5 * np.sum(z**2, 0)
        - np.sum(np.log(np.diagonal(factor)))
        - 0.5 * len(mean) * np.log(2 * np.pi)
    )


def compare(name, make, kind, n_init, seeds, folds):
    load, size = SETS[name]
    X = load().data.astype(float)
    found = {"ours": [], "theirs": [], "ours at point": [], "theirs at point": []}
    seconds = {"ours": 0.0, "theirs": 0.0}
    for seed in range(seeds):
        for train, test in KFold(folds, shuffle=True, random_state=seed).split(X):
            train, test = scaled(name, X[train], X[test])
            settings = {
                "n_components": size,
                "covariance_type": kind,
                "n_init": n_init,
                "random_state": seed,
            }
            settings |= {"reg_covar": 1e-3, "max_iter": 300, "tol": 1e-4}
            for who, module in (("ours", ours), ("theirs", mixture)):
                begun = time.process_time()
                fitted = getattr(module, make)(**settings).fit(train)
                seconds[who] += time.process_time() - begun
                found[who].append(fitted.score(test))
                found[f"{who} at point"].append(at_point(fitted, test))
    gap = np.array(found["ours at point"]) - np.array(found["theirs at point"])
    cells = [np.mean(values) for values in found.values()]
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    numbers = " | ".join(f"{x:.3f}" for x in cells)
    print(
        f"| {name} | `{make}` | {kind} | {numbers} | {gap.mean():+.3f} ± {error:.3f} "
        f"| {seconds['ours']:.0f} | {seconds['theirs']:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-init", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument(
        "--estimators", nargs="*", default=["GaussianMixture", "BayesianGaussianMixture"]
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| data | estimator | covariance | ours | theirs | ours, point | theirs, point | "
        "difference | CPU s | theirs |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in given.sets:
        for make in given.estimators:
            for kind in given.kinds:
                compare(name, make, kind, given.n_init, given.seeds, given.folds)
