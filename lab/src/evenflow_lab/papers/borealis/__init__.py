"""Dynamic load distribution in the Borealis stream processor."""
