"""Linear response: posterior covariances from a mean-field fit (`vijax.linear_response`).

It takes derivatives of a fit at its optimum, and makes none. Judgements of a fit are in `verdict`
and `trust`."""
