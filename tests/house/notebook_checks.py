"""What the notebooks are to show, checked after they have run, by notebook."""

CHECKS = {
    "energies": """
assert np.isclose(float(second.posterior["rate"].mean()), 3.0, atol=0.4)
assert float(check.p_value) > 0.02
""",
    "lda": """
assert scores["ssvi_a"].min() > scores["svi"].max()
assert scores["ssvi"].min() > scores["svi"].max()
assert distances["ssvi_a"].mean() < 0.8 * distances["svi"].mean()
for name in ("ssvi_a", "ssvi"):
    difference = vi.evaluate.paired_difference(text_scores[name][0], text_scores["svi"][0])
    assert difference.mean > 4 * difference.standard_error
    assert coherence[name].min() > coherence["svi"].max()
""",
    "mixtures": """
assert np.all(np.abs(draws.mean(0) - found[0]) < 0.4)
assert np.all(found[1] < 1.2 * draws.std(0))
""",
    "networks": """
assert abs(direction[0]) > 0.95
assert np.isclose(float(found.posterior["mean"].mean()), float(exact.posterior["mean"].mean()), atol=0.05)
assert abs(radius.mean() - 1) < 0.2
""",
    "own_parts": """
assert np.isclose(float(one.kl(two)), np.log(1 / 3) + 2, atol=1e-5)
assert 0 < first["with momentum"] < first["natural gradients"]
assert np.isclose(float(found["with momentum"].elbo), best, atol=0.5)
assert np.isclose(1 / float(fit.estimates["rate"].mean()), 2.0, atol=0.35)
""",
    "predictors": """
assert np.all(np.abs(np.asarray(found) - weights) < 5 * np.sqrt(np.asarray(variance)))
assert error.mean() < 0.1
""",
    "recommendations": """
assert found["6 components"].mean > 1.2 * found["popularity"].mean
assert scores["the model with ages"].mean > scores["the model without ages"].mean
""",
    "scaling": """
assert ends["batches of 100"][0] > ends["all documents"][0]  # after one pass
assert np.abs(means[1] - means[0]).max() < 1e-3
assert np.isclose(float(info.elbo), float(one.elbo), rtol=1e-4)
""",
    "sequences": """
assert wrong < 0.12
assert np.mean((high - low)[100:]) > np.mean((high - low)[:40])
""",
    "switching_dynamics": """
assert found[4].score(test, key=jax.random.key(2)).mean > found[2].score(test, key=jax.random.key(2)).mean + 0.5
assert adjusted_rand_score(truth.ravel(), states.ravel()) > 0.8
assert error(np.median(draws["recurrent"], 0), slice(20, 30)) < 0.5 * error(
    np.median(draws["linear"], 0), slice(20, 30)
)
""",
}
