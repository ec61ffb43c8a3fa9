"""The result of a fit, and the questions that it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray, PyTree

from vijax.checks import check_key, require, require_integers
from vijax.contract import describe
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.intake import cast_data, cast_for_score
from vijax.data.known_words import read_over_words, require_own_covariates
from vijax.data.loader import check_own_data
from vijax.data.schema.named_columns import Names, order_by_names
from vijax.data.schema.schema import Schema
from vijax.families import Family, Point, Product
from vijax.families.chain.word_walks import words_of_topics
from vijax.fitting import judge
from vijax.fitting.restarts import Many, each_state
from vijax.fitting.status import skipped_text
from vijax.fitting.to_arviz import to_arviz
from vijax.inference.compose import Algorithm
from vijax.inference.state import State, bad_variables
from vijax.predict import predictive
from vijax.predict import summary as summaries
from vijax.predict.averaged import average_shares
from vijax.predict.questions import infer, infer_documents, read_locals, read_shares
from vijax.xla import keys


class Fit(NamedTuple):
    """A finished (or stopped) run; `fit.outcome` says how it ended.

    Attributes:
      alg: the algorithm.
      state: its last state; `vijax.fit(..., state=fit.state)` resumes from it.
      trace: named arrays with one entry per step: `step`, `elbo`, `local_elbo`, `step_size`,
          `retractions`, ...
      status: the reason why it stopped.
      report: how far to trust a fit by `vijax.auto` or `vijax.dadvi`; else None.
      judge: data and key to judge a fit of free variables by steps (`judged`); else None.
      vocabulary: the words of the fitted documents by id (for `hpf` the items): new documents are
        read by them. None for other models, and where only ids were known.
      columns: the names of the columns of the fitted tables in memory: new tables are read by them.
        None for arrays.
      data_place: a sentence on data that lay on the device; "" where batches came from the host.
      runs: the states of all runs of `vijax.fit(..., combine="average")`, over which `score` and
        `transform` average; `vijax.fit(..., state=fit.runs)` resumes them. None for other fits.
    """

    alg: Algorithm
    state: State
    trace: dict[str, np.ndarray]
    status: Any
    report: Any = None
    judge: Any = None
    vocabulary: tuple[str, ...] | None = None
    columns: Names | None = None
    data_place: str = ""
    runs: Many | None = None

    def __repr__(self) -> str:
        return describe.fit_text(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), tuple(self), *judge.known_judgements(self))

    @property
    def schema(self) -> Schema | None:
        """The columns of the table that the model was made of, with their types: later tables are
        read by it. None for models of arrays."""
        return self.alg.spec.model.queries.get("schema")

    @property
    def posterior(self) -> Product:
        """q of the globals, by variable name. After `em` and `map`, which find points, its mean is
        not the estimate: `fit.estimates` has that."""
        return self.state.posterior.plain()

    @property
    def members(self) -> tuple[Fit, ...]:
        """The fits over which `score` and `transform` average, the better one first; of a fit that
        averages over none, itself alone."""
        if self.runs is None:
            return (self,)
        single = self._replace(runs=None)
        return tuple(single._replace(state=state) for state in each_state(self.runs))

    @property
    def num_skipped(self) -> int:
        """Steps skipped since step 0, because their value or gradient was not finite."""
        return int(self.state.num_skipped)

    @property
    def outcome(self) -> str:
        """The status, with the number of skipped steps if there are any; for `vijax.auto` and
        `vijax.dadvi` how they ended."""
        if self.report is not None:
            return self.report.ended
        skipped = skipped_text(self.num_skipped, int(self.state.step), self.skipped_of)
        return f"{self.status} ({skipped})" if skipped else str(self.status)

    @property
    def skipped_of(self) -> list[str]:
        """Globals whose gradient was not finite where steps were skipped."""
        if "bad_variable" not in self.trace:
            return []
        return bad_variables(self.trace["bad_variable"], list(self.posterior))

    @property
    def average(self) -> Product:
        """The mean of the posteriors, in natural parameters, since step `after` of
        `vijax.averaged(alg, after)`.

        Raises:
          ValueError: the algorithm keeps no average.
        """
        remedy = "Fit vijax.averaged(alg, after=...)."
        require("averaged" in self.state.beside, "average", "one that was kept", "none", remedy)
        return self.posterior.with_naturals(self.state.beside["averaged"])

    @property
    def verdict(self) -> str:
        """A few plain sentences on whether to trust the fit: those of the `report`, if there is
        one. The first call judges a fit of free variables by steps on draws of q (`judged` gives
        the cost). For other fits it says how they ended, what was not checked, and how to check
        it."""
        return judge.verdict(self)

    @property
    def usable(self) -> bool:
        """False where the verdict says "Do not use this fit"."""
        return judge.is_usable(self)

    @property
    def elbo(self) -> Any:
        """The bound with its standard error where there is a `report`, else the objective at the
        last step."""
        return float(self.trace["elbo"][-1]) if self.report is None else self.report.elbo

    @property
    def khat(self) -> float:
        """Shape of the tail of the importance ratios p / q: above 0.7, q misses tails of the
        posterior. The first call judges a fit of free variables by steps (`judged`). NaN where it
        is not known."""
        return judge.khat(self)

    def judged(
        self, data: Any = None, *, key: PRNGKeyArray | None = None, num_draws: int | None = None
    ) -> Any:
        """Judges a fit of free variables by steps (`vijax.advi`, `ngvi`, `bam`, `bbvi`, `compose`,
        ...) on draws of q.

        It costs one evaluation of the log density, without its gradient, for each draw: 512 draws,
        or fewer, down to 128, where draws times groups are more than 2^26. Beyond 2 million groups
        it needs `num_draws`. The fit keeps the judgement without arguments; `fit.verdict`,
        `fit.khat` and `repr(fit)` show it.

        Args:
          data: data to judge it on, as `vijax.fit` takes them; None takes the data of the fit.
          key: random key of the draws; None takes a key of the run. Needed for a fit that was read
              from a file.
          num_draws: number of draws.

        Returns:
          A `vijax.verdict.on_draws.Judgement`: `elbo` with its standard error, `gap` (a lower bound
          on KL(q || p)), `khat`, `shift` (how far means begin to move towards the posterior, in sds
          of q), `drift` of the last steps, `verdict`, `usable`, `sds_usable` (False also where the
          verdict says that sds are wrong). It does not look for other modes.

        Raises:
          ValueError: a fit without free variables, or whose E-step draws; data or key missing; data
            so large that `num_draws` has to be given.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - 3.0) ** 2))
        >>> fit = vi.fit(vi.ngvi(model), num_steps=20, key=jax.random.key(0))  # too few
        >>> fit.judged().usable, fit.verdict[:46]
        (False, 'Do not use this fit: q is not at the posterior')
        """
        return judge.judge_fit(self, data, key, num_draws)

    @property
    def modes(self) -> Sequence[Any]:
        """The modes that the starts of `vijax.auto` or `vijax.dadvi` found, best first."""
        return () if self.report is None else self.report.modes

    @property
    def estimates(self) -> dict[str, Family | Point]:
        """Estimates of the globals by name: q, or a `Point` where the algorithm finds only a point
        (`em`, `map`, `points`). `fit.estimates[name].mean()` is the number to report in either
        case."""
        is_point = self.alg.spec.is_point
        return {name: Point(q) if is_point(name) else q for name, q in self.posterior.items()}

    def sample(self, key: PRNGKeyArray, num_draws: int, *, locals_of: Any = None) -> dict[str, Any]:
        """Independent draws of the posterior.

        Args:
          key: random key of the draws.
          num_draws: number of draws.
          locals_of: data, as `fit.locals` takes them, whose local variables are drawn too.

        Returns:
          Values by name, in their support: arrays with a leading axis of draws; locals have an axis
          of groups after it. If only a point of a global is known, all draws are this point.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
        >>> fit = vi.fit(vi.cavi(model), jnp.array([[-3.0], [3.0]]), num_steps=5, key=jax.random.key(0))
        >>> {name: x.shape for name, x in fit.sample(jax.random.key(1), 100).items()}
        {'components': (100, 2, 1), 'weights': (100, 2)}
        """
        check_key(key, "It is the first argument: fit.sample(key, num_draws).")
        require_integers(num_draws=num_draws)
        key_globals, key_estep, key_locals = keys.split_many(key, 3)
        draws = predictive.draw_globals(
            self.alg.spec, self.state.hyper, self.posterior, key_globals, num_draws
        )
        if locals_of is None:
            return draws
        local_q = self.locals(locals_of, key=key_estep)
        return draws | predictive.draw_locals(local_q, key_locals, num_draws)

    def summary(
        self, *, level: float = 0.9, num_draws: int | None = None, key: PRNGKeyArray | None = None
    ) -> summaries.Summary:
        """Mean, sd and central interval of every number of the posterior, by name and coordinate.

        It rests on draws of q, so the error of a mean is sd / sqrt(num_draws). A point has an sd of
        zero. `print` shows a table, `to_frame()` returns one of pandas.

        Args:
          level: probability of the intervals.
          num_draws: number of draws; None takes 4,000, or fewer for many numbers.
          key: random key of the draws; None takes the same draws each time, so that equal fits have
              equal tables.

        Raises:
          ValueError: a posterior of more than 131,072 numbers.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - jnp.array([1.0, 9.0])) ** 2))
        >>> table = vi.auto(model, key=jax.random.key(0)).summary()
        >>> table.names, table.mean.round(1).tolist(), table.sd.round(1).tolist()
        (('x[0]', 'x[1]'), [1.0, 9.0], [1.0, 1.0])
        """
        key = jax.random.key(0) if key is None else key
        if num_draws is None:
            draw = jax.eval_shape(lambda key: self.sample(key, 1), key)
            num_draws = summaries.usual_draws(sum(x.size for x in jax.tree.leaves(draw)))
        require_integers(2, num_draws=num_draws)
        table = summaries.summarise_draws(self.sample(key, num_draws), level)
        names = self.alg.spec.model.queries.get("names")
        if names is None:
            return table
        return table.reorder(names())

    def predictive(
        self,
        key: PRNGKeyArray,
        num_draws: int,
        like: Any,
        *,
        groups: Literal["new", "same"] = "new",
    ) -> PyTree:
        """Draws of data from the posterior predictive distribution. For each draw, globals are
        drawn from their posterior (or are their points), then locals, then observations.

        Args:
          key: random key of the draws.
          num_draws: number of data sets.
          like: data as `vijax.fit` takes them, to copy inputs, lengths and sizes from; or sizes
            alone: a number of rows (mixtures, factor analysis, NMF, autoencoders), a list of
            lengths (documents, sequences) or of numbers of nodes (graphs). For Gaussian processes
            and GLMs: inputs, a pair (inputs, y), or `model.data`.
          groups: "new" draws the locals of new groups from their prior given the globals; "same"
            draws the locals of the groups of `like` from q given `like`: replicated data, which
            posterior predictive checks compare with the data.

        Returns:
          The random part of the data, draws leading: rows (num_draws, N, D), responses of
          regressions, sequences (num_draws, N, T, D), groups (num_draws, J, n), with NaN in
          padding; tables of counts of documents, (num_draws, documents, words); graphs (num_draws,
          graphs, N, N); for models of your own the result of `sample`. Missing entries are drawn
          too. `forecast` continues sequences.

        Raises:
          ValueError: fewer than one draw; `like` that is neither data nor sizes; draws that do not
            fit in memory; a model that does not say how data are drawn.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
        >>> fit = vi.fit(vi.cavi(model), jnp.array([[-3.0], [3.0]]), num_steps=5, key=jax.random.key(0))
        >>> fit.predictive(jax.random.key(1), 100, like=7).shape
        (100, 7, 1)
        """
        like = order_by_names(self.columns, like, "like")
        return predictive.draw_data(self, key, num_draws, like, groups)

    def forecast(self, key: PRNGKeyArray, num_draws: int, data: Any, num_steps: int) -> PyTree:
        """Draws of the next observations of sequences, from their predictive distribution.

        For each draw, globals are drawn from their posterior (or are their points), the state at
        the end of a sequence from q given the sequence, then state after state and observation
        after observation.

        Args:
          key: random key of the draws.
          num_draws: number of draws.
          data: sequences (y, mask), as `vijax.fit` takes them; fitted or new. A sequence without
            steps is drawn from its beginning.
          num_steps: number of observations that follow each sequence.

        Returns:
          (num_draws, N, num_steps, D). Their means, quantiles and shares are forecasts with
          uncertainty: `jnp.quantile(draws, jnp.array([0.05, 0.95]), axis=0)`. Counts with totals
          (`emission.categorical`) have the total of the last step.

        Raises:
          ValueError: a model or data without sequences; draws that do not fit in memory.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> y = jnp.tile(jnp.array([[0.0], [9.0]]), (20, 1))  # it alternates, and ends at 9
        >>> data = vi.models.pad([y])
        >>> model = vi.models.hmm(vi.models.emission.unit_gaussian(2, dim=1))
        >>> fit = vi.fit(vi.cavi(model), data, num_steps=20, key=jax.random.key(0))
        >>> draws = fit.forecast(jax.random.key(1), 100, data, num_steps=3)
        >>> draws.shape, jnp.median(draws, axis=0).round(-1).ravel().tolist()
        ((100, 1, 3, 1), [0.0, 10.0, 0.0])
        """
        return predictive.forecast(
            self, key, num_draws, order_by_names(self.columns, data), num_steps
        )

    def predictive_interval(
        self,
        key: PRNGKeyArray,
        like: Any,
        *,
        level: float = 0.9,
        num_draws: int = 1000,
        groups: Literal["new", "same"] = "new",
    ) -> tuple[PyTree, PyTree]:
        """Central intervals of each observation, from draws of `predictive`: low and high ends,
        each like one draw.

        Args:
          key, like, groups: see `predictive`.
          level: probability of the intervals.
          num_draws: number of draws; the ends are their quantiles. With 1,000 draws, 5 ± 0.7 % of
            the distribution lie beyond each end of a 90 % interval.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> model = vi.models.mixture(vi.models.emission.unit_gaussian(1, dim=1))
        >>> fit = vi.fit(vi.cavi(model), jnp.zeros((1000, 1)), num_steps=5, key=jax.random.key(0))
        >>> low, high = fit.predictive_interval(jax.random.key(1), like=1, level=0.95, num_draws=20_000)
        >>> print(low.round(), high.round())
        [[-2.]] [[2.]]
        """
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        draws = self.predictive(key, num_draws, like, groups=groups)
        ends = jnp.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        intervals = jax.tree.map(lambda x: jnp.quantile(x, ends, axis=0), draws)
        low = jax.tree.map(lambda x: x[0], intervals)
        high = jax.tree.map(lambda x: x[1], intervals)
        return low, high

    def to_arviz(
        self,
        key: PRNGKeyArray,
        num_draws: int = 1000,
        *,
        data: Any = None,
        predictive_of: Any = None,
    ) -> Any:
        """Independent draws of the posterior for ArviZ: plots, summaries, files (Kumar et al.
        2019).

        They are draws of q, so diagnostics of Markov chains (R-hat, effective sample sizes) are
        always good, and say nothing of q.

        Args:
          key: random key of the draws.
          num_draws: number of draws, as one chain.
          data: the data that a density was fitted to, if it reads any: its `lp` needs them.
          predictive_of: data to replicate (`predictive` with groups="same"), for ArviZ's posterior
            predictive checks. Adds the groups `posterior_predictive`, with `num_draws` draws of
            data, and `observed_data`.

        Returns:
          `arviz.InferenceData`; with ArviZ 1.0 and later `xarray.DataTree`. The group `posterior`
          has each variable as (1, num_draws, *shape); parts of a variable that is a tree are named
          `variable.part`. For a `vijax.glmm` it has the effects of groups, by Bambi's names ("1|g",
          along "g__factor_dim"). A density has a group `sample_stats`: log q (`lq`) and log p
          (`lp`, unnormalised, as Stan's `lp__`) of the free coordinates. Attributes give version
          and algorithm, and the bound, gap, k-hat and verdict of a `report`.

        Raises:
          ValueError: fewer than one draw; data for a model that is no density.
          ImportError: ArviZ is not installed.

        >>> import jax, jax.numpy as jnp, pytest, vijax as vi
        >>> arviz = pytest.importorskip("arviz")
        >>> fit = vi.auto(vi.density({"x": vi.free(3)}, lambda v: -jnp.sum(v["x"] ** 2)), key=jax.random.key(0))
        >>> tree = fit.to_arviz(jax.random.key(1), 100)
        >>> tree["posterior"]["x"].shape, tree["sample_stats"]["lp"].shape
        ((1, 100, 3), (1, 100))
        """
        return to_arviz(self, key, num_draws, data=data, predictive_of=predictive_of)

    def topics(
        self, vocabulary: Sequence[str] | None = None, num_words: int = 10
    ) -> list[list[str]]:
        """The most probable words of each topic, best first.

        Args:
          vocabulary: the words by id, or other labels of them; None takes the words of the fit.
          num_words: the number of words.

        Raises:
          ValueError: the model has no topics; the vocabulary has another length, or the fit's words
            in another order; None for a fit that knows only ids.
        """
        if vocabulary is None:
            is_known = self.vocabulary is not None
            remedy = "Pass the words by id, as corpus.vocabulary."
            require(is_known, "vocabulary", "words", "none, and data without words", remedy)
            vocabulary = self.vocabulary or ()
        probabilities = np.asarray(self._topics().mean())
        num_known = probabilities.shape[1]
        require(len(vocabulary) == num_known, "vocabulary", f"{num_known} words", len(vocabulary))
        if self.vocabulary is not None and vocabulary is not self.vocabulary:
            self._check_order(vocabulary, self.vocabulary)
        best = np.argsort(-probabilities, axis=1)[:, :num_words]
        return [[vocabulary[v] for v in row] for row in best]

    def _check_order(self, vocabulary: Sequence[str], fitted: tuple[str, ...]) -> None:
        """Raises ValueError where a vocabulary has the words of the fit in another order."""
        is_same = tuple(vocabulary) == fitted
        is_permuted = not is_same and sorted(vocabulary) == sorted(fitted)
        expected = "the words of the fit in their order"
        remedy = "Leave it out, or pass that of the data of the fit."
        require(not is_permuted, "vocabulary", expected, "another order", remedy)

    def transform(
        self,
        documents: Any,
        *,
        key: PRNGKeyArray,
        batch_size: int = 1024,
        progress: Callable[[int], Any] | None = None,
    ) -> Float[np.ndarray, "docs K"]:
        """Expected topic proportions of documents, in their order, at the posterior. Fits with
        `combine="average"` average the proportions of all runs, moved to the topics of the better
        one (`vijax.predict.averaged`).

        Args:
          documents: anything `vijax.data.read` reads. Words of the fit are recognised by name;
            others are dropped, with a warning. Counts without words must be over the words of the
            fit, in their order.
          key: random key of an E-step that draws.
          batch_size: documents at a time.
          progress: called after each batch with the number of finished documents.

        Raises:
          ValueError: the model has no topics; the documents have no word of the fit, or counts of
            other words.
        """
        spec = self.alg.spec
        spec.model.answer("transform")
        concentrations = jax.eval_shape(lambda: self._topics().concentration)
        num_words = concentrations.shape[1]
        corpus = self.in_words(documents)
        expected = f"the {num_words} words of the training vocabulary"
        remedy = "Relabel them with vijax.data.with_vocabulary(corpus, training vocabulary)."
        require(corpus.vocab_size == num_words, "documents", expected, corpus.vocab_size, remedy)
        members = self.members
        last_tells = [*[None] * (len(members) - 1), progress]
        shares = [
            infer_documents(
                read_shares,
                spec,
                member.state.hyper,
                member.posterior,
                corpus,
                key,
                batch_size,
                tell,
            )
            for member, tell in zip(members, last_tells, strict=True)
        ]
        if self.runs is None:
            return shares[0]
        return average_shares(shares, [member._topics().mean() for member in members])

    def locals(self, data: Any, *, key: PRNGKeyArray) -> PyTree:
        """The optimised locals of data at the posterior. For models made by `energy_model` they are
        factors by name, one for each group (`fit.locals(y, key=key)["z"].probs` are a mixture's
        responsibilities). Under a Gibbs E-step, locals that depend on each other are the
        conditionals of its last sweep, not marginals.

        Of a NumPyro model whose discrete sites were summed out they are these sites, averaged over
        draws of q; `data` is then None.

        Args:
          data: data as `vijax.fit` takes them (arrays with one leading axis of groups, documents).
          key: random key of an E-step that draws, and of draws of q.

        Raises:
          ValueError: the model has no locals: the predictors of a GP or GLM are its globals.
        """
        spec = self.alg.spec
        if "locals" in spec.model.queries:
            return spec.model.answer("locals")(self, data, key)
        if spec.model.by_entry is not None:
            raise spec.model.cannot_answer("locals")
        if spec.model.form.documents is not None and not isinstance(data, Documents):
            at = self.state.hyper, self.posterior
            return infer_documents(read_locals, spec, *at, self.in_words(data), key)
        batch = Minibatch(cast_data(spec.model, order_by_names(self.columns, data)), None)
        return infer(read_locals, spec, self.state.hyper, self.posterior, batch, key)

    def score(self, documents: Any, *, key: PRNGKeyArray) -> Any:
        """Held-out score with its standard error, by the usual measure of the model: document
        completion for LDA. Fits with `combine="average"` average the predictions of all runs.

        Raises:
          ValueError: the model has no such measure.
        """
        model = self.alg.spec.model
        score = model.answer("score")
        if model.form.in_units_of_given:
            check_own_data(documents, model.form)
        data = documents
        if model.form.documents is not None:
            data = self.in_words(data)
        elif model.by_entry is None:
            data = cast_for_score(model, order_by_names(self.columns, data))
        if self.runs is None:
            return score(self.state.hyper, self.estimates, data, key)
        members = self.members
        hypers = [member.state.hyper for member in members]
        return model.answer("average")(hypers, [member.estimates for member in members], data, key)

    def filter(self) -> Any:
        """The filter of a hidden Markov model, for rows one after another: its `init()` is the
        state before the first row, `step(state, row)` that after one more. States have the filtered
        probabilities (`probs`), those of the next state, and the log density of the row given those
        before it; these add up to the score of the sequence. Both are pure functions, for `jit` and
        `scan`, and nothing is kept but the state.

        Raises:
          ValueError: the model has no filter.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> y = jnp.array([[0.0], [0.1], [5.0], [5.1], [0.2], [4.9]])
        >>> model = vi.models.hmm(vi.models.emission.unit_gaussian(2, 1))
        >>> fit = vi.fit(vi.cavi(model), vi.models.pad([y]), num_steps=10, key=jax.random.key(0))
        >>> online = fit.filter()
        >>> state = online.step(online.init(), y[0])
        >>> print(state.num_rows, jnp.sort(state.probs).round(2))
        1 [0. 1.]
        """
        return self.alg.spec.model.answer("filter")(self.state.hyper, self.estimates)

    def predict(self, inputs: Any, **how: Any) -> Any:
        """Mean and variance, (T,) each, of the predictors of a Gaussian process or a GLM at new
        inputs. For a regression by a formula: its `Prediction` of new rows.

        Args:
          inputs: T inputs. `model.predictive(fit.posterior, inputs, y)` gives the densities of
              observations at them.
          **how: for a regression by a formula the key and the level, as in `Glmm.predict`.

        Raises:
          ValueError: the model has no predictors.

        >>> import jax, jax.numpy as jnp, vijax as vi
        >>> model = vi.models.glm(jnp.eye(2), jnp.array([1.0, -1.0]), vi.likelihood.gaussian(0.01))
        >>> fit = vi.fit(vi.pg_svi(model), model.data, num_steps=20, key=jax.random.key(0))
        >>> print(fit.predict(jnp.ones((1, 2)))[0].round(1), fit.predict(jnp.eye(2))[0].round(1))
        [0.] [ 1. -1.]
        """
        return self.alg.spec.model.answer("predict")(self, inputs, **how)

    def in_words(self, documents: Any, where: str = "documents") -> Any:
        """Documents (for `hpf` users) over the words of the fit, as a `vijax.data.Corpus`: see
        `transform`.

        Args:
          documents: anything `vijax.data.read` reads.
          where: their name in messages.
        """
        form = self.alg.spec.model.form.documents
        if form is None:
            corpus = read_over_words(documents, self.vocabulary or None, where, "words")
            require_own_covariates(corpus, "", where)
            return corpus
        vocabulary = self.vocabulary or form.vocabulary
        corpus = read_over_words(documents, vocabulary, where, form.names[1])
        require_own_covariates(corpus, form.described_by, where)
        return corpus

    @property
    def topic_words(self) -> Any:
        """The law of the words of topics, over all slices together if they move in time; None for a
        model without topics."""
        if "topics" not in self.posterior:
            return None
        return words_of_topics(self.posterior["topics"])

    def _topics(self) -> Any:
        if "topics" not in self.posterior:
            raise self.alg.spec.model.cannot_answer("topics")
        return self.topic_words


def _restored(kind: type[Fit], fields: tuple[Any, ...], *judgement: Any) -> Fit:
    """A fit from a pickle, with the judgement that it had, if any."""
    fit = kind(*fields)
    if judgement:
        judge.remember(fit.judge, fit, *judgement)
    return fit
