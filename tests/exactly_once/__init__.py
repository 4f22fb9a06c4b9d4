"""What the tests of exactly-once share: a driver that may be killed, who kills it, and the truth."""
