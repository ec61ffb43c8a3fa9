"""Words by which people name columns: of identifiers, sequences, groups, and what is to be
predicted."""

IDS = frozenset(
    {
        "id", "ids", "no", "nr", "number", "index", "idx", "rowname", "rownames", "serial", "key",
        "uuid",
    }
)  # fmt: skip
"""Words that name columns of identifiers."""
UNITS = frozenset(
    {
        "sequence", "series", "group", "subject", "animal", "patient", "person", "participant",
        "user", "unit", "device", "sensor", "station", "site", "case", "track", "run", "trial",
        "session",
    }
)  # fmt: skip
"""Words that name columns of sequences."""
GROUPS = UNITS | frozenset(
    {
        "respondent", "student", "pupil", "child", "herd", "school", "classroom", "teacher",
        "clinic", "hospital", "ward", "center", "centre", "plot", "block", "batch", "rater",
        "judge", "family", "household", "cluster", "country", "county", "region", "city",
    }
)  # fmt: skip
"""Words that name columns of groups."""
TARGETS = frozenset(
    {
        "target", "label", "labels", "class", "classes", "y", "outcome", "response", "result",
        "churn", "churned", "default", "defaulted", "survived", "survival", "died", "dead", "death",
        "diagnosis", "disease", "fraud", "spam", "converted", "conversion", "success", "failure",
        "event", "subscribed", "attrition", "exited", "left", "admitted", "approved", "readmitted",
        "recovered", "positive", "improved", "cured", "healed", "relapse", "relapsed", "remission",
        "responded", "responder", "passed", "won", "clicked", "purchased", "bought", "hired",
        "infected", "deceased", "mortality", "alive", "price", "sales", "revenue", "demand", "ziel",
        "klasse", "zielvariable",
    }
)  # fmt: skip
"""Words that name columns to predict."""
YES = frozenset(["yes", "true", "y", "t", "ja", "oui", "si", "sí", "1", "positive", "pos"])
"""Labels of the class that is modelled, in small letters."""
