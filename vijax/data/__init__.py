"""Input data: corpora and tables, and their minibatches of fixed shapes.

All data are read here, once. `loader` deals the data of a fit in batches. How a model reads its
data is in `contract` and `models`; nothing here fits anything."""

from vijax.data.corpora.corpus import Corpus as Corpus
from vijax.data.corpora.ratings import ratings as ratings
from vijax.data.corpora.select import select_words as select_words
from vijax.data.corpora.select import with_vocabulary as with_vocabulary
from vijax.data.minibatch import Minibatches as Minibatches
from vijax.data.minibatch import document_batches as document_batches
from vijax.data.minibatch import full_batch as full_batch
from vijax.data.minibatch import in_order as in_order
from vijax.data.minibatch import minibatches as minibatches
from vijax.data.minibatch import prefetch as prefetch
from vijax.data.read import load_bag_of_words as load_bag_of_words
from vijax.data.read import read as read
from vijax.data.reading.checks import DataError as DataError
from vijax.data.streams.documents import shards as shards
from vijax.data.streams.own_part import own_part as own_part
from vijax.data.streams.rows import rows as rows
from vijax.data.streams.stream import stream as stream
from vijax.data.synthetic import lda_corpus as lda_corpus
from vijax.data.texts.docstrings import docstring_corpus as docstring_corpus
from vijax.data.texts.text import TextSettings as TextSettings
from vijax.data.to_shards import prepare as prepare
