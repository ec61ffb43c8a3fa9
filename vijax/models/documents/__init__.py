"""Models of documents: latent Dirichlet allocation, correlated topics, pLSA, the simple mixture.

Topics with covariates are in `structural`; how documents are read and dealt is in `vijax.data`.
"""
