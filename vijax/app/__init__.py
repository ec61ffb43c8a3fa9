"""The program behind `vijax fit`: configurations, the catalogue of models, runs and their folders, pages."""
