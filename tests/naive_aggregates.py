"""Aggregates under PySpark's names, as loops over the values of one key, None among them."""

import math
from fractions import Fraction

from naive import spark_order


def there(values):
    return [value for value in values if value is not None]


def count_if(values):
    return sum(value is True for value in values)


def bool_and(values):
    return all(there(values)) if there(values) else None


def bool_or(values):
    return any(there(values)) if there(values) else None


def first(values, ignorenulls):
    kept = there(values) if ignorenulls else values
    return kept[0] if kept else None


def last(values, ignorenulls):
    return first(values[::-1], ignorenulls)


def extreme_by(rows, choose):
    """The value of the (value, ord) whose ord `choose` (min or max) prefers; of several, the smallest
    value, None last."""
    ordered = [(value, order) for value, order in rows if order is not None]
    if not ordered:
        return None
    best = choose((order for _, order in ordered), key=spark_order)
    tied = [value for value, order in ordered if spark_order(order) == spark_order(best)]
    return min(there(tied), key=spark_order, default=None)


def collect_set(values):
    distinct = {spark_order(value): value for value in there(values)}
    return [distinct[order] for order in sorted(distinct)]


def mode(values):
    """The most frequent value; of several, the smallest."""
    distinct = collect_set(values)
    orders = [spark_order(value) for value in there(values)]
    return max(distinct, key=lambda value: orders.count(spark_order(value)), default=None)


def variance(values, sample):
    """In exact arithmetic, then rounded."""
    numbers = [float(value) for value in there(values)]
    divisor = len(numbers) - 1 if sample else len(numbers)
    if divisor < 1:
        return None
    if not all(map(math.isfinite, numbers)):
        return math.nan
    exact = [Fraction(number) for number in numbers]
    mean = sum(exact) / len(exact)
    return float(sum((number - mean) ** 2 for number in exact) / divisor)


def percentile(values, p):
    """The ⌈p·n⌉-th smallest value."""
    ordered = sorted(there(values), key=spark_order)
    return ordered[max(1, math.ceil(p * len(ordered))) - 1] if ordered else None
