"""Exponential families as pytrees of natural parameters."""

from vijax.families.base import Family
from vijax.families.chain.linear_gaussian_chain import LinearGaussianChain, LinearGaussianChainStats
from vijax.families.chain.markov_chain import MarkovChain, MarkovChainStats
from vijax.families.discrete.categorical import Categorical, CategoricalStats
from vijax.families.discrete.dirichlet import Dirichlet, DirichletStats
from vijax.families.discrete.multinomial import Multinomial, MultinomialStats
from vijax.families.numeric.implicit import implicit
from vijax.families.point import Point
from vijax.families.product import Product
from vijax.families.scalar.bernoulli import Bernoulli, BernoulliStats
from vijax.families.scalar.beta import Beta, BetaStats
from vijax.families.scalar.gamma import Gamma, GammaStats
from vijax.families.scalar.inverse_gamma import InverseGamma, InverseGammaStats
from vijax.families.scalar.normal import Normal, NormalStats
from vijax.families.scalar.normal_gamma import MeanPrecision, NormalGamma, NormalGammaStats
from vijax.families.scalar.poisson import Poisson, PoissonStats
from vijax.families.scalar.polya_gamma import PolyaGamma, PolyaGammaStats
from vijax.families.scalar.truncated_normal import TruncatedNormal, TruncatedNormalStats
from vijax.families.vector.inverse_wishart import InverseWishart, InverseWishartStats
from vijax.families.vector.multivariate_normal import MultivariateNormal, MultivariateNormalStats
from vijax.families.vector.multivariate_normal_gamma import (
    CoefficientsPrecision,
    MultivariateNormalGamma,
    MultivariateNormalGammaStats,
)
from vijax.families.vector.normal_wishart import NormalWishart, NormalWishartStats
from vijax.families.vector.normals_wishart import NormalsWishart, NormalsWishartStats
from vijax.families.vector.wishart import Wishart, WishartStats

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
