"""Long runs: what must stay flat."""
