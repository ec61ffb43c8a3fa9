"""Wrappers of an algorithm: steps by words and devices, warm starts, averages; what stands beside the step."""
