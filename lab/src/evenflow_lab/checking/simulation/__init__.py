"""Deterministic simulation: drivers, tasks, stores, consumers and a broker in one process, with every
fault where a seed says so."""
