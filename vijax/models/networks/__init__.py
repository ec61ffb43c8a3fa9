"""Models with neural networks: variational autoencoders, plain and structured.

A network is any pair of an initial tree and a function. Libraries of networks do not belong here.
"""
