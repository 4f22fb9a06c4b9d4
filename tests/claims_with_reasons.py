"""Which claims of a paper give a reason, should they not hold: read off the source."""

import ast
from pathlib import Path

#: function → how many of its arguments come before the reason
_BEFORE_THE_REASON = {"judged": 3, "terms.judged": 2, "Verdict": 2, "Measured": 2}
_DECORATORS = {"claim": 0, "_measured": 2}  #: name → position of the claim's id


def claims_with_reasons(folder: Path) -> set[str]:
    """The ids of the claims whose judges give a reason, should they not hold."""
    found = set()
    for path in sorted(folder.glob("claims*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and any(
                map(_gives_a_reason, ast.walk(function))
            ):
                found.add(_id(function))
    return found - {""}


def _id(function: ast.FunctionDef) -> str:
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and (name := ast.unparse(mark.func)) in _DECORATORS:
            id = mark.args[_DECORATORS[name]]
            return id.value if isinstance(id, ast.Constant) else ""  # a helper has a variable there
    return ""


def _gives_a_reason(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).removeprefix("read.")
    if name not in _BEFORE_THE_REASON:
        return False
    if name == "Verdict" and node.args and ast.unparse(node.args[0]) == "None":
        return False  # open
    given = node.args[_BEFORE_THE_REASON[name] :]
    named = [word.value for word in node.keywords if word.arg in {"why", "why_not"}]
    return any(ast.unparse(reason) != "''" for reason in (*given, *named))
