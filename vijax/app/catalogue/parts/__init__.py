"""Parts that several listings share: emissions, networks, the section of log densities, remarks on
wide components.

A part knows no listing. Parts of a single listing are in its file.
"""
