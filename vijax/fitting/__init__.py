"""The loop around the step: batches, restarts, stopping, checkpoints, Ctrl-C, and the `Fit` that it returns."""
