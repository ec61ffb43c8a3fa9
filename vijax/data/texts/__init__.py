"""Text: files that hold it, tokens, stop words and vocabularies.

Words are decided here; what is counted of them is a corpus, in `corpora`.
"""
