"""Exponential families as pytrees of natural parameters."""

from vijax.families.base import Family
from vijax.families.bernoulli import Bernoulli, BernoulliStats
from vijax.families.beta import Beta, BetaStats
from vijax.families.categorical import Categorical, CategoricalStats
from vijax.families.dirichlet import Dirichlet, DirichletStats
from vijax.families.gamma import Gamma, GammaStats
from vijax.families.implicit import implicit
from vijax.families.inverse_gamma import InverseGamma, InverseGammaStats
from vijax.families.inverse_wishart import InverseWishart, InverseWishartStats
from vijax.families.linear_gaussian_chain import LinearGaussianChain, LinearGaussianChainStats
from vijax.families.markov_chain import MarkovChain, MarkovChainStats
from vijax.families.multinomial import Multinomial, MultinomialStats
from vijax.families.multivariate_normal import MultivariateNormal, MultivariateNormalStats
from vijax.families.multivariate_normal_gamma import (
    CoefficientsPrecision,
    MultivariateNormalGamma,
    MultivariateNormalGammaStats,
)
from vijax.families.normal import Normal, NormalStats
from vijax.families.normal_gamma import MeanPrecision, NormalGamma, NormalGammaStats
from vijax.families.normal_wishart import NormalWishart, NormalWishartStats
from vijax.families.normals_wishart import NormalsWishart, NormalsWishartStats
from vijax.families.point import Point
from vijax.families.poisson import Poisson, PoissonStats
from vijax.families.polya_gamma import PolyaGamma, PolyaGammaStats
from vijax.families.product import Product
from vijax.families.truncated_normal import TruncatedNormal, TruncatedNormalStats
from vijax.families.wishart import Wishart, WishartStats

__all__ = [
    "Bernoulli",
    "BernoulliStats",
    "Beta",
    "BetaStats",
    "Categorical",
    "CategoricalStats",
    "CoefficientsPrecision",
    "Dirichlet",
    "DirichletStats",
    "Family",
    "Gamma",
    "GammaStats",
    "InverseGamma",
    "InverseGammaStats",
    "InverseWishart",
    "InverseWishartStats",
    "LinearGaussianChain",
    "LinearGaussianChainStats",
    "MarkovChain",
    "MarkovChainStats",
    "MeanPrecision",
    "Multinomial",
    "MultinomialStats",
    "MultivariateNormal",
    "MultivariateNormalGamma",
    "MultivariateNormalGammaStats",
    "MultivariateNormalStats",
    "Normal",
    "NormalGamma",
    "NormalGammaStats",
    "NormalStats",
    "NormalWishart",
    "NormalWishartStats",
    "NormalsWishart",
    "NormalsWishartStats",
    "Point",
    "Poisson",
    "PoissonStats",
    "PolyaGamma",
    "PolyaGammaStats",
    "Product",
    "TruncatedNormal",
    "TruncatedNormalStats",
    "Wishart",
    "WishartStats",
    "implicit",
]
