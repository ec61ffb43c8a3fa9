"""Text: files that hold it, tokens, stop words and vocabularies."""
