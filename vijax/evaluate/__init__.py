"""Scores with standard errors: probabilities of held-out data, and coherence of topics; posterior
predictive checks.

Scores judge a fit by data that it has not seen, or by its topics. The rooms `verdict` and `trust`
judge how far q is from the posterior."""

from vijax.evaluate.c_v import c_v as c_v
from vijax.evaluate.completion import document_completion as document_completion
from vijax.evaluate.completion import gaussian_completion as gaussian_completion
from vijax.evaluate.predictive_check import PredictiveCheck as PredictiveCheck
from vijax.evaluate.predictive_check import predictive_check as predictive_check
from vijax.evaluate.ranking import Ranked as Ranked
from vijax.evaluate.ranking import Ranking as Ranking
from vijax.evaluate.ranking import hide as hide
from vijax.evaluate.ranking import ranked as ranked
from vijax.evaluate.ranking import ranking as ranking
from vijax.evaluate.score import Agreement as Agreement
from vijax.evaluate.score import Coherence as Coherence
from vijax.evaluate.score import Difference as Difference
from vijax.evaluate.score import HeldOut as HeldOut
from vijax.evaluate.score import Score as Score
from vijax.evaluate.score import log_predictive_density as log_predictive_density
from vijax.evaluate.score import nmi as nmi
from vijax.evaluate.score import npmi as npmi
from vijax.evaluate.score import paired_difference as paired_difference
from vijax.evaluate.score import unigram_score as unigram_score
from vijax.evaluate.topic_words import exclusivity as exclusivity
from vijax.evaluate.topic_words import frex as frex
from vijax.evaluate.topic_words import lift as lift
from vijax.evaluate.topic_words import semantic_coherence as semantic_coherence
from vijax.evaluate.topic_words import word_scores as word_scores
from vijax.evaluate.whole_documents import chib as chib
from vijax.evaluate.whole_documents import left_to_right as left_to_right
