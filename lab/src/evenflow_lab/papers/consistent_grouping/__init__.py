"""Load balancing for skewed streams on heterogeneous clusters."""
