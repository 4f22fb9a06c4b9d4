"""The laboratory: the papers' experiments and claims, rivals, benchmarks, report pages."""

__version__ = "0.2.0"
