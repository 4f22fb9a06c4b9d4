"""Spark applications with one planted fault each, and how well `evenflow diagnose` does on them."""
