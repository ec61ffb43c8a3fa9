"""The folder of a run: what is written there, claimed, checked and read back, and `vijax.load`.

Whoever asks for the state, the posterior or the facts of a run finds them here. Results that are
made of a fit (`answers`) and its page (`report`) are not here, and nothing here begins a run."""
