"""The folder of a run: what is written there, locked, checked and read back, and `vijax.load`.

The state, the posterior and the facts of a run are read here. Results made of a fit are in
`answers`, its page in `report`; runs are started in `runs`.
"""
