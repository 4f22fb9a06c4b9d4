"""The live page: what queries, consumers and a fleet are doing, in a browser, and for Prometheus."""
