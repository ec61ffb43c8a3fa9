"""The page of a run, made from its folder: `report.html`, tables and figures, and the part that
explores topics.

The style sheets, the frame and the script files here are put into the page, which fetches nothing.
How a block is drawn is in `drawing`; a page computes no answers.
"""
