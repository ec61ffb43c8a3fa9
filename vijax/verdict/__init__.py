"""Numbers and sentences about one fit: importance weights, reports, judgements on draws, improper
densities.

It fits nothing: searches are in `automatic`, steps in `fitting`, and checks with fits or chains in
`trust`. `limits` has every limit beyond which a verdict changes."""
