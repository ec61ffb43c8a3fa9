"""The loop around the step: batches, restarts, stopping, checkpoints, Ctrl-C, and the `Fit` that it
returns.

A `Fit` and its methods stand here, their answers elsewhere: predictions in `predict`, judgements in
`verdict`. The batches come from `data`, the step from `inference`."""
