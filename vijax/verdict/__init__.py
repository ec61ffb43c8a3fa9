"""Numbers and words about one fit: importance weights, reports, draws that judge it, improper
densities, sentences.

It fits nothing: searches are in `automatic`, steps in `fitting`, and checks that make fits or
chains of their own in `trust`. `limits` has every limit beyond which a verdict changes."""
