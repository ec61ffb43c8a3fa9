"""The page of a run, made of its folder: `report.html`, tables and figures, and the part that
explores topics.

The style sheets, the frame and the files of script beside this one are put into the page, and fetch
nothing. How one block is drawn is in `drawing`; a page asks, and computes no answers."""
