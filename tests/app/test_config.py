"""Configurations: reading, overriding, writing, and the messages of every mistake."""

import dataclasses
import inspect
import re
import tomllib
import typing
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

import vijax as vi
from tests.naming import naming
from vijax.app.catalogue import LISTINGS
from vijax.app.catalogue.parts.density_algorithm import DensityAlgorithm
from vijax.app.plan.config import differing_keys, load_config, read_config, schema, settings_text
from vijax.app.settings.options import Chooser, make_option
from vijax.app.settings.toml_source import _leaves
from vijax.app.settings.typed_toml import ConfigError, Entry, flatten, settings, write_toml
from vijax.arguments import read_arguments
from vijax.data.texts.text import TextSettings
from vijax.fitting.fit import fit

DOTTED = ".".join("a" * 3000)
DEEP = (
    "[" * 400 + "]" * 400,
    "[" * 5000 + "]" * 5000,
    "{" + DOTTED + " = 1}",
    "[{" + DOTTED + " = 1}]",
)
NESTED = [
    *((1, text) for text in (f"[{DOTTED}]\nx = 1\n", f"[[{DOTTED}]]\nx = 1\n", f"{DOTTED} = 1\n")),
    *((2, f"[model]\nnum_topics = {value}\n") for value in DEEP),
]
BAD_NAMES = (
    *("'../../x'", "'/tmp/x'", "'a/b'", "'..'", "'.'", "''", "'.hidden'", "'a\\b'", "'C:x'", '"a\\u0000b"', '"a\\nb"'),
    f"'{'x' * 101}'", f"'{'ä' * 51}'",
)  # fmt: skip


def write(folder, text, name="run.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_values_of_a_file_replace_the_defaults(tmp_path):
    path = write(
        tmp_path,
        '[model]\nnum_topics = 7\nalpha = 1\n[algorithm.estep]\nname = "gibbs"\nnum_sweeps = 3\n',
    )
    config = load_config(path)
    assert config.name == "run"
    assert config.model.num_topics == 7
    assert config.model.alpha == 1.0
    assert isinstance(config.model.alpha, float)
    assert config.algorithm.estep.num_sweeps == 3
    assert config.fit == schema("lda")().fit


def test_overrides_win_and_may_drop_sections_and_quotes(tmp_path):
    path = write(tmp_path, "[model]\nnum_topics = 7\n")
    overrides = [
        "num_topics=9",
        "algorithm.name=svi",
        "model.learn=['alpha']",
        "data.column=body text",
    ]
    config = load_config(path, overrides, data="news.csv")
    assert config.model.num_topics == 9
    assert config.algorithm.name == "svi"
    assert config.model.learn == ("alpha",)
    assert config.data.path == "news.csv"
    assert config.data.column == "body text"


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (
            "[model]\n\nnum_topic = 5\n",
            ["run.toml, line 3", "'model.num_topic'", "did you mean model.num_topics?"],
        ),
        ("num_topics = 5\n", ["line 1", "'num_topics'", "did you mean model.num_topics?"]),
        ("[mdoel]\neta = 5\n", ["line 2", "did you mean model.eta?"]),
        ("name = 'x'\nmodel = 3\n", ["line 2", "'model'", "section", "model.name"]),
        ("zzzzz = 5\n", ["unknown key 'zzzzz'", "vijax settings"]),
        ("[model]\nnum_topics = 'many'\n", ["line 2", "model.num_topics", "an integer", '"many"']),
        ("[model]\nnum_topics = 5.0\n", ["model.num_topics", "an integer", "5.0"]),
        ("[model]\nnum_topics = true\n", ["model.num_topics", "an integer", "true"]),
        ("[model]\nnum_topics = 0\n", ["line 2", "model.num_topics", "an integer >= 1", "got 0"]),
        ("[model]\neta = -0.5\n", ["line 2", "model.eta", "a positive number", "-0.5"]),
        ("[model]\nalpha = nan\n", ["line 2", "model.alpha", "a finite number", "got nan"]),
        ("[model]\nalpha = inf\n", ["model.alpha", "finite"]),
        ("[data]\nheld_out = 1.0\n", ["data.held_out", "a number from 0 to below 1"]),
        (
            "[algorithm]\nname = 'ssvia'\n",
            ["line 2", "algorithm.name", '"svi"', 'did you mean "ssvi_a"?'],
        ),
        ("[algorithm.estep]\nname = 'gibs'\n", ["algorithm.estep.name", 'did you mean "gibbs"?']),
        (
            "[algorithm]\nestep.num_sweeps = 2\n",
            ["line 2", "estep.num_sweeps", '"cvb0"', "a setting of gibbs"],
        ),
        (
            "[algorithm.step_size]\nname='constant'\nkappa=0.7\n",
            ["line 3", "takes rho", "robbins_monro"],
        ),
        ("[algorithm]\ndamping = 0.3\n", ["line 2", "algorithm.damping", "only ssvi", "ssvi_a"]),
        ("[data]\nmin_df = 3\n", ["line 2", "data.min_df", "docstrings"]),
        (
            "[model]\nname = 'mixtur'\n",
            ["line 2", "model.name", '"hmm"', 'did you mean "mixture"?'],
        ),
        ("[model]\nname = 3\n", ["line 2", "model.name", '"lda"', "got 3"]),
        (
            "[model]\nnum_states = 3\n",
            [
                "line 2",
                "model.num_states",
                "but of arhmm, dynamic_svae, factorial_hmm, hdp_hmm, hmm",
            ],
        ),
        (
            "[model]\nname = 'hmm'\nnum_topics = 3\n",
            ["line 3", "model.num_topics", '"hmm"', "but of ctm, dtm, hdp, lda"],
        ),
        (
            "[model]\nname = 'mixture'\nnum_component = 3\n",
            ["line 3", "did you mean model.num_components?"],
        ),
        (
            "[model]\nname = 'mixture'\nemission.name = 'gauss'\n",
            ["line 3", "model.emission.name", "full_gaussian"],
        ),
        (
            "[model]\nname = 'mixture'\nemission.name = 'poisson'\nemission.strength = 1\n",
            [
                "line 4",
                "model.emission.strength",
                '"poisson", which takes shape, rate',
                "or tied_gaussian",
            ],
        ),
        (
            "[model]\nname = 'mixture'\ninit.num_iters = -1\n",
            ["line 3", "model.init.num_iters", "an integer >= 0"],
        ),
        (
            "[model]\nname = 'mixture'\n[data]\ntarget = 'y'\n",
            ["line 4", "data.target", "mixture predicts no column"],
        ),
        (
            "[model]\nname = 'mixture'\n[data]\ngroup = 'g'\n",
            ["line 4", "data.group", "mixture reads rows one by one"],
        ),
        (
            "[model]\nname = 'mixture'\n[data]\nhold_out = 'entries'\n",
            ["line 4", "data.hold_out", "missing entries"],
        ),
        ("[model]\nname = 'glm'\n", ["line 2", "glm predicts a column", 'data.target = "y"']),
        (
            "[model]\nname = 'gp'\n[algorithm]\nname = 'cavi'\n",
            ["line 4", "algorithm.name", "pg_svi"],
        ),
        (
            "[model]\nname = 'gp'\n[data]\ntarget = 'y'\n[algorithm]\ninner_steps = 2\n",
            ["line 6", "algorithm.inner_steps", "memory = true"],
        ),
        (
            "[model]\nname = "
            "'hmm'\n[algorithm]\nname='em'\npoints=['initial']\n[data]\ngroup='g'\n",
            ["line 5", "of cavi and svi"],
        ),
        (
            "[model]\nname = 'hmm'\n[algorithm.estep]\nname = 'cvb0'\n",
            ["line 4", "algorithm.estep.name", '"gibbs"'],
        ),
        ("[model\nnum_topics = 5\n", ["run.toml", "not valid TOML", "line 1"]),
        ("[model]\nname = ['lda']\n", ["line 2", "model.name", "got ['lda']"]),
        (
            "[fit]\ncheckpoint_every_s = inf\n",
            ["line 2", "fit.checkpoint_every_s", "a finite number", "got inf"],
        ),
        ("[fit]\nprogress_every_s = nan\n", ["line 2", "fit.progress_every_s", "got nan"]),
        ("[algorithm]\nramp = inf\n", ["line 2", "algorithm.ramp", "a finite number", "got inf"]),
        (
            "[model]\nname='mixture'\nemission.location = -inf\n",
            ["line 3", "emission.location", "got -inf"],
        ),
        (f"[model]\neta = {10**400}\n", ["line 2", "model.eta: expected"]),
        (f"[fit]\nseed = {2**63}\n", ["line 2", "fit.seed", "2^63 - 1"]),
        ("[data]\nsplit_seed = -1\n", ["line 2", "data.split_seed", "an integer >= 0"]),
        ("[fit]\nevaluate_every = -1\n", ["line 2", "fit.evaluate_every", "an integer >= 0"]),
        *(
            (f"name = {name}\n", ["line 1", "name", "a name that a folder may have", "no slash"])
            for name in BAD_NAMES
        ),
        *(
            (
                text,
                ["run.toml", f"line {line}", "names of at most 20 parts", "no setting needs them"],
            )
            for line, text in NESTED
        ),
    ],
)
def test_mistakes_name_the_place_the_key_and_the_remedy(tmp_path, text, fragments):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("override", "fragment"),
    [
        ("num_topics", "expected key=value"),
        ("nam=3", "--set nam=3: unknown key 'nam'"),
        ("kapa=0.6", "did you mean algorithm.step_size.kappa?"),
        (
            "model.alpha=big",
            '--set model.alpha=big: model.alpha: expected a number or a list, each item a number, got "big"',
        ),
        ("step_size=3", "unknown key 'step_size'"),
        ("model.name=nothing", "--set model.name=nothing: model.name: expected one of"),
    ],
)
def test_a_wrong_override_is_named(tmp_path, override, fragment):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, ""), [override])
    assert fragment in str(caught.value)


def test_files_that_are_no_configuration(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path / "latin.toml")


NUMBERS = [
    0,
    1,
    -1,
    0.5,
    -0.0,
    1e-300,
    1e300,
    1e22,
    1e16,
    float("inf"),
    float("-inf"),
    float("nan"),
    2**31,
    2**63,
    10**400,
]
TEXTS = st.text(st.characters(categories=["L", "Cc", "Cs", "Zs", "P", "Co"]), max_size=8)
VALUES = st.one_of(
    st.sampled_from(NUMBERS), st.floats(), st.booleans(), TEXTS, st.lists(TEXTS, max_size=2)
)


@st.composite
def some_settings(draw):
    """A few settings of some model, of any value at all."""
    model = draw(st.sampled_from(["lda", "mixture", "gp"]))
    known = settings(schema(model))
    keys = draw(st.lists(st.sampled_from(sorted(known)), max_size=3, unique=True))
    chosen = {
        key: draw(st.one_of(VALUES, st.sampled_from(choices(known[key].type) or ["x"])))
        for key in keys
    }
    return (
        {"data.target": "y"} | chosen | {"model.name": model}
        if model == "gp"
        else chosen | {"model.name": model}
    )


def choices(hint):
    literal = typing.get_origin(hint) is typing.Literal
    return [*typing.get_args(hint)] if literal else []


@hypothesis.settings(max_examples=200, deadline=None, derandomize=True, database=None)
@hypothesis.given(some_settings())
def test_what_is_accepted_is_written_so_that_it_reads_back_the_same(values):
    try:
        config = read_config({key: Entry(value, "here") for key, value in values.items()})
    except ConfigError:
        return
    for comments in (True, False):
        text = write_toml(config, comments).encode().decode()
        again = read_config({k: Entry(v, "file") for k, v in _leaves(tomllib.loads(text)).items()})
        assert again == config
        assert flatten(again) == flatten(config)


def test_most_of_those_settings_that_should_be_accepted_are(tmp_path):
    """The property above is not empty."""
    accepted = [
        "fit.checkpoint_every_s=0",
        "data.path='\x7f\u00e9\"\\'",
        "fit.seed=9223372036854775807",
        "eta=1e22",
    ]
    config = load_config(
        write(tmp_path, ""), [text.replace("eta", "model.eta") for text in accepted]
    )
    assert config.fit.seed == 2**63 - 1
    assert load_config(write(tmp_path, write_toml(config), "again.toml")) == config


@pytest.mark.parametrize(
    ("stem", "data", "overrides", "name"),
    [
        ("lda", None, [], "lda"),
        ("lda", "texts/reviews.csv", [], "reviews"),
        ("lda", None, ["data.path=texts/my reviews/"], "my_reviews"),
        ("lda", "https://x.org/some.csv?a=b", [], "some"),
        ("lda", "texts/reviews.csv", ["name=mine"], "mine"),
        (".odd", None, [], "odd"),
    ],
)
def test_a_run_is_named_by_the_data_that_are_not_those_of_the_file(
    tmp_path, stem, data, overrides, name
):
    """The page of a run on reviews.csv must not be headed "lda_docstrings"."""
    assert load_config(write(tmp_path, "", f"{stem}.toml"), overrides, data).name == name


def test_a_name_in_the_file_stays_whatever_the_data(tmp_path):
    assert load_config(write(tmp_path, "name = 'mine'\n"), [], "texts/reviews.csv").name == "mine"


def test_a_written_configuration_reads_back_the_same(tmp_path):
    path = write(
        tmp_path, "[model]\nlearn = ['alpha', 'eta']\neta = 0.01\n[algorithm]\nname = 'em'\n"
    )
    config = load_config(path, ['data.path=/tmp/ä "quoted"\\path'])
    assert load_config(write(tmp_path, write_toml(config), "copy.toml")) == config


@pytest.mark.parametrize("model", LISTINGS)
def test_the_settings_page_is_the_default_configuration(model):
    assert tomllib.loads(settings_text(model))["model"]["name"] == model
    assert all(name.rpartition(".")[2] in settings_text(model) for name in flatten(schema(model)()))


def test_differing_keys_ignore_those_free_on_resume(tmp_path):
    path = write(tmp_path, "")
    old, new = (
        flatten(load_config(path, over)) for over in (["eta=0.5"], ["num_epochs=99", "seed=4"])
    )
    assert differing_keys(old, new) == {"model.eta": (0.5, 0.1), "fit.seed": (0, 4)}


def test_without_a_name_the_settings_of_lda_and_the_names_of_the_others_are_listed():
    assert tomllib.loads(settings_text())["model"]["name"] == "lda"
    assert all(
        f"#   {name}" in settings_text() and listing.title in settings_text()
        for name, listing in LISTINGS.items()
    )


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].glob("configs/*.toml")), ids=lambda p: p.stem
)
def test_shipped_configurations_load(path):
    assert load_config(path).name == path.stem


@pytest.mark.parametrize("model", LISTINGS)
def test_every_setting_has_a_meaning_and_a_default_within_its_limit(model):
    for key, setting in settings(schema(model)).items():
        assert setting.help, key
        assert (
            setting.check is None or setting.default is None or setting.check.test(setting.default)
        ), key


OTHER_DEFAULTS = {("hdp", "eta"), ("lda", "eta"), ("gp", "jitter")}
"""Of the command line, by measurement on whole data sets."""


@pytest.mark.parametrize(
    "model", [name for name, listing in LISTINGS.items() if hasattr(listing.settings, "MADE")]
)
def test_settings_of_a_model_are_those_of_its_constructor(model):
    made, section = LISTINGS[model].settings.MADE, settings(LISTINGS[model].settings)
    for name, argument in read_arguments(made.make).items():
        if name in made.takes:
            assert section[name].help == argument.meaning
            assert section[name].check is argument.limit
            same = argument.default in (section[name].default, inspect.Parameter.empty)
            assert same != ((model, name) in OTHER_DEFAULTS)


SAID_ONCE = {
    **{
        f"data.{name}": (TextSettings, name)
        for name in read_arguments(TextSettings)
        if name != "stop_words"
    },
    **{f"fit.{name}": (fit, name) for name in ("num_epochs", "batch_size", "restarts")},
    "fit.convergence": (fit, "tol"),
}


@pytest.mark.parametrize("key", SAID_ONCE)
def test_settings_of_text_and_of_the_fit_are_those_of_the_library(key):
    make, name = SAID_ONCE[key]
    known, argument = settings(schema("lda"))[key], read_arguments(make)[name]
    assert argument.meaning
    assert known.help.startswith(argument.meaning)
    assert known.check is argument.limit
    assert (
        known.default == argument.default or key == "fit.num_epochs"
    )  # which `vijax.fit` leaves open


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "data.min_df=0",
            "min_df: expected a whole number of 1 or more, or a fraction such as 0.5, got 0",
        ),
        (
            "data.max_df=1.5",
            "max_df: expected a whole number of 1 or more, or a fraction such as 0.5, got 1.5",
        ),
        ("data.ngrams=6", "ngrams: expected a whole number from 1 to 5, got 6"),
        ("data.max_vocabulary=0", "max_vocabulary: expected a whole number of 1 or more, got 0"),
        ("fit.restarts=0", "restarts: expected an integer >= 1, got 0"),
    ],
)
def test_limits_of_the_library_are_named_with_the_place(tmp_path, override, expected):
    key, _, value = override.partition("=")
    table, _, name = key.partition(".")
    path = write(tmp_path, f"[{table}]\n{name} = {value}\n")
    with pytest.raises(ConfigError, match=re.escape(f"{path}, line 2: {table}.{expected}")):
        load_config(path)


@pytest.mark.parametrize(
    ("method", "setting"), [("auto", "max_draws=4"), ("dadvi", "num_draws=1"), ("ngvi", "nats=0")]
)
def test_limits_of_densities_are_those_of_the_signature(tmp_path, method, setting):
    name, _, value = setting.partition("=")
    make = {"auto": vi.auto, "dadvi": vi.dadvi, "ngvi": vi.ngvi}[method]
    expected = read_arguments(make)[name].limit.expected
    text = (
        f'[model]\nname = "density"\nfile = "x.py"\n[algorithm]\nname = "{method}"\n{name} = '
        f"{value}\n"
    )
    with pytest.raises(
        ConfigError, match=f"line 6: algorithm.{name}: expected {expected}, got {value}"
    ):
        load_config(write(tmp_path, text))


def test_a_choice_that_cannot_do_without_a_setting_says_so(tmp_path):
    path = write(
        tmp_path, "[algorithm]\nname = 'svi'\n[algorithm.step_size]\nname = 'hold_then_decay'\n"
    )
    with pytest.raises(
        ConfigError,
        match=naming("line 4:", "algorithm.step_size.name", "algorithm.step_size.hold"),
    ):
        load_config(path)


def choosers(section):
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Chooser):
            yield field.name, type(value)
        if dataclasses.is_dataclass(value):
            yield from choosers(value)


CHOOSERS = {
    choice: name
    for model in LISTINGS
    for name, choice in choosers(schema(model)())
    if choice is not DensityAlgorithm
}
BEFORE = {"emission": (3, 2), "response": (2,)}
"""What the constructors of a section are given beside its settings."""


def value_for(setting):
    """A value that is allowed, and is no default."""
    kind = next(one for one in typing.get_args(setting.type) if one is not type(None))
    choices = typing.get_args(kind) or {bool: (True,), int: (2, 3), float: (0.3, 2.5, 4.5)}[kind]
    return next(one for one in choices if setting.check is None or setting.check.test(one))


@pytest.mark.parametrize(
    "section", CHOOSERS, ids=[f"{name}-{i}" for i, name in enumerate(CHOOSERS.values())]
)
def test_each_option_of_a_section_is_made_with_all_that_it_takes(section):
    known = settings(section)
    for name, option in section.OPTIONS.items():
        given = {key: 4.5 if key == "degrees" else value_for(known[key]) for key in option.takes}
        assert (
            make_option(section(name=name, **given), *BEFORE.get(CHOOSERS[section], ())) is None
        ) == (name == "default")
