"""The parts of `vijax.auto`."""
