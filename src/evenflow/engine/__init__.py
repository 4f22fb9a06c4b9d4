"""One batch, as a pure function of its rows, the manifest before it and its plan. No Spark in here."""
