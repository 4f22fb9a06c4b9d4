"""Exactly once under kills: a driver that may be killed, who kills it, and the truth."""
