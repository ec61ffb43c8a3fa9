"""Models of as many components as the data ask for: births, merges and deletes of their slots,
between laps of an algorithm.

What a slot is stands in `slots`, what is computed of data in `laps`, of documents in `documents`
and `restarts`, of states in `states`, which moves are worth a try in `proposals`; `grow` is the
loop. The step inside is the algorithm's own."""

from vijax.growing.proposals import Proposal as Proposal
