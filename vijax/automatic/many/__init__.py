"""Regressions of many responses on one design (`vijax.glmm.many`): all are fitted side by side, in
one compiled program, and tables of them know how many they are.

One response alone is fitted by `vijax.auto`; its density is in `models/formulas`."""
