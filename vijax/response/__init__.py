"""Linear response: posterior covariances from a mean-field fit (`vijax.linear_response`).

This room differentiates a fit at its optimum, and fits nothing. The rooms `verdict` and `trust`
judge fits."""
