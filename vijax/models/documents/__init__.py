"""Models of documents: latent Dirichlet allocation, correlated topics, pLSA, the simple mixture."""
