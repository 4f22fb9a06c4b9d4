"""Sums in a declaration: `{2/n}` in a scheme's parameters."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from evenflow.model import InputError

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def evaluate(expression: str, names: Mapping[str, Any]) -> float:
    """The value of an expression of numbers, names and + − * / **; nothing else is understood.

    Example:
        >>> evaluate("share / (2 * n)", {"share": 1, "n": 50})
        0.01
    """
    numbers = {name: item for name, item in names.items() if isinstance(item, int | float)}

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in numbers:
                return numbers[name]
            case ast.Name(id=name):
                raise InputError(f"no number is called {name!r}; known: {', '.join(numbers)}")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                result: float = _OPERATORS[type(op)](value(left), value(right))
                return result
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
        raise InputError(f"{{{expression}}} may hold numbers, names and + - * / ** only")

    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ArithmeticError) as error:
        raise InputError(f"{{{expression}}} cannot be worked out: {error}") from None


def names_in(expression: str) -> set[str]:
    """The names that an expression uses.

    Example:
        >>> sorted(names_in("share / n"))
        ['n', 'share']
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
