"""Load balancing and generalized split state reconciliation in event driven systems."""
