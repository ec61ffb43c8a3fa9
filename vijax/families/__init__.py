"""Exponential families as pytrees of natural parameters.

A family is a law with natural parameters, its sufficient statistics and its draws; it knows no
model and no step. Maps between points and free coordinates are in `constrain`."""

from vijax.families.base import Family as Family
from vijax.families.chain.linear_gaussian_chain import LinearGaussianChain as LinearGaussianChain
from vijax.families.chain.linear_gaussian_chain import (
    LinearGaussianChainStats as LinearGaussianChainStats,
)
from vijax.families.chain.markov_chain import MarkovChain as MarkovChain
from vijax.families.chain.markov_chain import MarkovChainStats as MarkovChainStats
from vijax.families.discrete.categorical import Categorical as Categorical
from vijax.families.discrete.categorical import CategoricalStats as CategoricalStats
from vijax.families.discrete.categorical import Multinomial as Multinomial
from vijax.families.discrete.categorical import MultinomialStats as MultinomialStats
from vijax.families.discrete.dirichlet import Dirichlet as Dirichlet
from vijax.families.discrete.dirichlet import DirichletStats as DirichletStats
from vijax.families.numeric.draws import implicit as implicit
from vijax.families.point import Point as Point
from vijax.families.product import Product as Product
from vijax.families.scalar.bernoulli import Bernoulli as Bernoulli
from vijax.families.scalar.bernoulli import BernoulliStats as BernoulliStats
from vijax.families.scalar.beta import Beta as Beta
from vijax.families.scalar.beta import BetaStats as BetaStats
from vijax.families.scalar.gamma import Gamma as Gamma
from vijax.families.scalar.gamma import GammaStats as GammaStats
from vijax.families.scalar.gamma import InverseGamma as InverseGamma
from vijax.families.scalar.gamma import InverseGammaStats as InverseGammaStats
from vijax.families.scalar.normal import Normal as Normal
from vijax.families.scalar.normal import NormalStats as NormalStats
from vijax.families.scalar.normal_gamma import MeanPrecision as MeanPrecision
from vijax.families.scalar.normal_gamma import NormalGamma as NormalGamma
from vijax.families.scalar.normal_gamma import NormalGammaStats as NormalGammaStats
from vijax.families.scalar.poisson import Poisson as Poisson
from vijax.families.scalar.poisson import PoissonStats as PoissonStats
from vijax.families.scalar.polya_gamma import PolyaGamma as PolyaGamma
from vijax.families.scalar.polya_gamma import PolyaGammaStats as PolyaGammaStats
from vijax.families.scalar.truncated_normal import TruncatedNormal as TruncatedNormal
from vijax.families.scalar.truncated_normal import TruncatedNormalStats as TruncatedNormalStats
from vijax.families.vector.inverse_wishart import InverseWishart as InverseWishart
from vijax.families.vector.inverse_wishart import InverseWishartStats as InverseWishartStats
from vijax.families.vector.matrix_normal_wishart import MatrixNormalWishart as MatrixNormalWishart
from vijax.families.vector.matrix_normal_wishart import (
    MatrixNormalWishartStats as MatrixNormalWishartStats,
)
from vijax.families.vector.matrix_normal_wishart import MatrixPrecision as MatrixPrecision
from vijax.families.vector.multivariate_normal import MultivariateNormal as MultivariateNormal
from vijax.families.vector.multivariate_normal import (
    MultivariateNormalStats as MultivariateNormalStats,
)
from vijax.families.vector.multivariate_normal_gamma import (
    CoefficientsPrecision as CoefficientsPrecision,
)
from vijax.families.vector.multivariate_normal_gamma import (
    MultivariateNormalGamma as MultivariateNormalGamma,
)
from vijax.families.vector.multivariate_normal_gamma import (
    MultivariateNormalGammaStats as MultivariateNormalGammaStats,
)
from vijax.families.vector.normal_wishart import NormalsWishart as NormalsWishart
from vijax.families.vector.normal_wishart import NormalsWishartStats as NormalsWishartStats
from vijax.families.vector.normal_wishart import NormalWishart as NormalWishart
from vijax.families.vector.normal_wishart import NormalWishartStats as NormalWishartStats
from vijax.families.vector.wishart import Wishart as Wishart
from vijax.families.vector.wishart import WishartStats as WishartStats
