"""Models with neural networks: variational autoencoders, plain and structured."""
