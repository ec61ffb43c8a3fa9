"""Scores: held-out probability, and coherence of topics, with standard errors; posterior predictive checks."""

from vijax.evaluate.chib import chib as chib
from vijax.evaluate.coherence import npmi as npmi
from vijax.evaluate.completion import document_completion as document_completion
from vijax.evaluate.gaussian_completion import gaussian_completion as gaussian_completion
from vijax.evaluate.held_out import HeldOut as HeldOut
from vijax.evaluate.held_out import log_predictive_density as log_predictive_density
from vijax.evaluate.left_to_right import left_to_right as left_to_right
from vijax.evaluate.paired import Difference as Difference
from vijax.evaluate.paired import paired_difference as paired_difference
from vijax.evaluate.predictive_check import PredictiveCheck as PredictiveCheck
from vijax.evaluate.predictive_check import predictive_check as predictive_check
from vijax.evaluate.score import Coherence as Coherence
from vijax.evaluate.score import Score as Score
from vijax.evaluate.unigram import unigram_score as unigram_score
