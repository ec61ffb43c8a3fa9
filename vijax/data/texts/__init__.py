"""Text: text files, tokens, stop words and vocabularies.

Texts become words here; their counts are a corpus, in `corpora`.
"""
