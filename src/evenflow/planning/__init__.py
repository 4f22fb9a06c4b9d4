"""From what has been seen to what is done next."""
