"""The parts of `vijax.linear_response`."""
