"""Steps of topic models that cost the words and topics of a batch: what only bags of words need.

Models of topics are in `vijax.models`.
"""

from vijax.topics.anchors import anchor_words
from vijax.topics.decision import all_words
from vijax.topics.own_words import OwnWords, by_words, of_all_words, renumbered, stored
from vijax.topics.seeds import seeded
from vijax.topics.summary import linked
from vijax.topics.top_words import top_words
from vijax.topics.tree import TopicTree, topic_tree

__all__ = [
    "OwnWords",
    "TopicTree",
    "all_words",
    "anchor_words",
    "by_words",
    "linked",
    "of_all_words",
    "renumbered",
    "seeded",
    "stored",
    "top_words",
    "topic_tree",
]
