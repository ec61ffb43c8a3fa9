"""The loop around the step: batches, restarts, stopping, checkpoints, Ctrl-C, and the `Fit` that it
returns.

What a `Fit` can be asked stands here, its answers elsewhere: predictions in `predict`, judgements
in `verdict`. How data are dealt is in `data`, the step in `inference`."""
