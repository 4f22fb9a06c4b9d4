"""Nothing here is a test, and one of the examples is wrong on purpose."""

collect_ignore_glob = ["*.py"]
