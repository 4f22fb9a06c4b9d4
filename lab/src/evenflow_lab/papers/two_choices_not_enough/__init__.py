"""When two choices are not enough."""
