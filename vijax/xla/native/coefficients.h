// Polynomials of gammas.cc: constant term first.
//
// Written by benchmarks/fit_coefficients.py, which says what each table approximates and how well; do not edit.
#pragma once

constexpr float NORMAL_QUANTILE[] = {
    3.67670459f, 2.67711675f, -0.1026139287f, -0.0296670189f, 0.1472529227f, -0.2146070223f, 0.1737025627f,
    0.0179007266f, -0.2154621134f, 0.1326261443f, 0.09949242664f, -0.1007158272f, -0.01811097782f, 0.02499812045f};
constexpr float LOGARITHM[] = {
    0.3333322383f, -0.2499968876f, 0.2001004466f, -0.1668546423f, 0.1401090797f, -0.1211515897f, 0.1396250581f,
    -0.1319148136f};
