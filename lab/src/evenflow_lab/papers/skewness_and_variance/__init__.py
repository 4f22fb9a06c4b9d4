"""Parallel stream processing against workload skewness and variance."""
