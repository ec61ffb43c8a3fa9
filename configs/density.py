"""Linear regression with errors of heavy tails (Student's t, four degrees of freedom): fitted by density.toml."""

import jax.numpy as jnp
from jax.scipy.stats import norm, t

import vijax as vi


def model(data):
    """data["x"] has a row for each row of the table and a column for each of its columns, data["y"] is the target."""
    num_columns = data["x"].shape[1]

    def log_prior(v):
        return (
            jnp.sum(norm.logpdf(v["weights"], 0, 5))
            + norm.logpdf(v["intercept"], 0, 10)
            - v["scale"]
        )

    def log_lik(v, row):  # of one row
        return t.logpdf(row["y"], 4.0, row["x"] @ v["weights"] + v["intercept"], v["scale"])

    variables = {
        "weights": vi.free(num_columns),
        "intercept": vi.free(),
        "scale": vi.free(support="positive"),
    }
    return vi.density(variables, log_prior=log_prior, log_lik=log_lik)
