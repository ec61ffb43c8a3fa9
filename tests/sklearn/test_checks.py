"""scikit-learn's own checks, on every estimator of the registry."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import vijax.sklearn as vs
from tests.sklearn.estimators import ESTIMATORS, expected_failures

WITHOUT_A_FIT = {
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimators_unfitted",
    "check_estimators_empty_data_messages",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
    "check_fit1d",
    "check_complex_data",
}
"""What needs nothing compiled."""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([row for row, _ in ESTIMATORS], expected_failed_checks=expected_failures)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("row", [row for row, _ in ESTIMATORS], ids=lambda row: type(row).__name__)
def test_the_checks_that_fit_nothing(row):
    seen = set()
    for estimator, check in estimator_checks_generator(row):
        if check.func.__name__ in WITHOUT_A_FIT:
            check(estimator)
            seen.add(check.func.__name__)
    assert seen == WITHOUT_A_FIT


def test_every_estimator_has_a_row():
    assert {type(row).__name__ for row, _ in ESTIMATORS} == set(vs.__all__)
