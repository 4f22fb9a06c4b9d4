"""Compiled loops over arrays, and nothing else. Numba is imported in `jit` only."""
