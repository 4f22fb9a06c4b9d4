"""Operators → nodes, by how their loads rise and fall together."""
