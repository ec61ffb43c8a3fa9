"""The text of `vijax --help`."""

GUIDE = """Models fitted by variational inference in JAX: a configuration each, a page of results each.

Start here, with nothing but this package (it learns topics from the documentation of the Python packages beside it, in
a few minutes, and writes a page to look at):

    vijax fit lda

Your own texts: a folder of .txt, or a .jsonl, .csv, .parquet, LDA-C, UCI or matrix file

    vijax fit lda --data my_texts/ --out runs/mine --set model.num_topics=30
    vijax fit lda --data news.jsonl --set data.column=body fit.num_epochs=5

Your own numbers: a .csv, .tsv, .parquet, .npy or .npz table; clusters, hidden Markov models, factors, regressions,
Gaussian processes and others, each of which comes with a configuration (vijax configs) and data to try it on

    vijax fit mixture
    vijax fit mixture --data flowers.csv --set num_components=3
    vijax fit logistic_regression --data patients.csv --set data.target=ill

How many topics, components, states? A run for each value, on data that are read once, and a table of held-out scores

    vijax fit lda --data news.jsonl --sweep model.num_topics=10,20,50
    vijax compare runs/mine runs/other            the same table of runs that there are

A configuration of your own to edit, after a look at your data: its columns, its size, settings that suit them

    vijax init mixture --data flowers.csv --out flowers.toml
    vijax fit flowers.toml

Any log density of your own, in a Python file, which is executed

    vijax fit density
    vijax fit density --data mine.csv --set model.file=mine.py data.target=y

Thousands of responses (genes, taxa, voxels) on one design, and which signs are sure

    vijax many samples.csv --formula "~ dose" --responses genes.csv --by sample --out genes

Then

    vijax summary runs/mine                       what was found, in words and numbers
    vijax topics runs/mine                        the topics, in words
    vijax transform runs/mine --data new.csv --out new_topics.csv
                                                  topics of other documents; clusters, states, predictions of other rows
    vijax predict runs/mine --steps 10            forecasts of sequences; draws of rows or targets, with intervals
    vijax shares runs/mine --by date --every month
                                                  topics by group and over time
    vijax evaluate runs/mine --data other.jsonl   how well it predicts other data
    vijax report runs/mine                        write report.html and figures again
    vijax resume runs/mine                        go on after Ctrl-C, a crash or a power cut, bit for bit
    vijax configs                                 the configurations that come with vijax
    vijax settings                                the models, and every setting of the first
    vijax settings hmm                            every setting of another, its default and its meaning
    vijax settings fit --model hmm                those of one section
    vijax version                                 which vijax this is (also: vijax --version)

--debug (or VIJAX_DEBUG=1) shows where an error came from. Compiled programs are kept in the user's cache folder
(VIJAX_CACHE moves it), so that the second run starts in seconds.
"""
