"""What `evenflow bench spark` measures, one measurement a file. `catalogue` lists and runs them.

Nothing is imported here: workers load operators from this package, and must start quickly.
"""
