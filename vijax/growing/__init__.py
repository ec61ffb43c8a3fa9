"""Models of as many components as the data ask for: births, merges and deletes of their slots,
between laps of an algorithm.

`grow` is the loop. It keeps a `task.Task`, and passes on a `present.Present`: the present fit. Its
moves are in `moves` and `births`; `trials` accepts or rejects them. `slots` defines slots,
`proposals` which merges are worth a try. Programs over data are in `laps`, those of documents in
`documents` and `restarts`, those of states in `states`. The step inside is the algorithm's own."""

from vijax.growing.proposals import Proposal as Proposal
