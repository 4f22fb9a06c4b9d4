"""The pictures of `evenflow demo` and `evenflow compare`. Needs the extra `report` (matplotlib)."""
