"""How each series of a figure looks: colours, marks and dashes that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.report.style import BLUE, GREEN, ORANGE, VERMILLION, Dash, Look

SKY, PURPLE, BLACK = "#56B4E9", "#CC79A7", "#000000"
# Paul Tol's muted colours and two greys, for more schemes than Okabe and Ito have colours.
INDIGO, WINE, OLIVE, TEAL, BROWN, GREY = (
    "#332288", "#882255", "#999933", "#44AA99", "#7A4B1E", "#7F7F7F",
)  # fmt: skip

SOLID, DASHED, DOTTED, DASH_DOT = "-", "--", ":", "-."
_LONG: Dash = (0, (8, 2))
_LONG_DOT: Dash = (0, (8, 2, 1.5, 2))
_SHORT: Dash = (0, (3, 1.2))
_TWO_DOTS: Dash = (0, (5, 1.5, 1.2, 1.5, 1.2, 1.5))
DASHES: tuple[Dash, ...] = (
    SOLID, DASHED, DASH_DOT, _LONG, _SHORT, _TWO_DOTS, _LONG_DOT, DOTTED,
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "P", "X", "*", "h", "<", ">", "p", "d")

# The same in every picture: who has seen one figure can read the next.
_SCHEMES: dict[str, Look] = {
    "key": Look(BLACK, "X", DASHED),
    "shuffle": Look(GREY, "s", DASH_DOT),
    "partial-key": Look(ORANGE, "o", SOLID),
    "d-choices": Look(BLUE, "D", SOLID),
    "w-choices": Look(GREEN, "^", _LONG),
    "round-robin-head": Look(WINE, "P", _TWO_DOTS),
    "greedy-d": Look(BROWN, ">", _SHORT),
    "consistent": Look(VERMILLION, "*", SOLID),
    "random-choices": Look(SKY, "h", _LONG),
    "bounded-hashing": Look(PURPLE, "d", _SHORT),
    "two-choices": Look(INDIGO, "p", _LONG_DOT),
    "table": Look(OLIVE, "<", _TWO_DOTS),
    "fish": Look("#C2185B", "v", SOLID),
    "dalton": Look("#5D3FD3", "H", DASHED),
    "key-isolator": Look("#556B2F", "8", DASH_DOT),
    # Planners of routing tables, which never share a picture with schemes.
    "mixed": Look(BLUE, "D", SOLID),
    "mixed-literal": Look(ORANGE, "P", _LONG),
    "min-table": Look(VERMILLION, "s", DASHED),
    "min-mig": Look(GREEN, "^", SOLID),
    "mixed-bf": Look(SKY, "h", _SHORT),
    "compact-mixed": Look(INDIGO, "d", SOLID),
    "readj": Look(BLACK, "X", DASH_DOT),
}
_FREE = (
    Look(TEAL, "1", _LONG_DOT),
    Look("#AA4499", "2", DASHED),
    Look("#6699CC", "o", _SHORT),
    Look("#A05000", "D", DASH_DOT),
    Look("#117733", "s", _TWO_DOTS),
    Look("#AA3377", "^", _LONG),
)
_CATEGORIES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK, INDIGO, OLIVE, WINE)
_OTHER_DATA: tuple[Dash, ...] = (DOTTED, (0, (1, 3)), (0, (1, 1, 4, 1)))


def scheme_looks(names: Sequence[str]) -> dict[str, Look]:
    """Scheme → look: the known ones their own, others the next that is free, in the order given.

    Example:
        >>> looks = scheme_looks(["mine", "partial-key", "mine", "yours"])
        >>> looks["partial-key"].colour, looks["mine"].colour != looks["yours"].colour
        ('#E69F00', True)
    """
    others = [name for name in dict.fromkeys(names) if name not in _SCHEMES]
    looks = {name: _FREE[i % len(_FREE)] for i, name in enumerate(others)}
    return {name: _SCHEMES.get(name) or looks[name] for name in dict.fromkeys(names)}


def category_look(position: int) -> Look:
    """The look of the i-th of some things that have no order."""
    return Look(
        _CATEGORIES[position % len(_CATEGORIES)],
        _MARKERS[position % len(_MARKERS)],
        DASHES[position % len(DASHES)],
    )


def ordered_look(position: int, count: int) -> Look:
    """The look of the i-th of some numbers: from dark to light in their order."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    # Viridis is read alike with all kinds of colour vision; its end is too light on white.
    share = position / max(count - 1, 1)
    colour = to_hex(colormaps["viridis"](0.8 * share))
    return Look(colour, _MARKERS[position % len(_MARKERS)], DASHES[position % len(DASHES)])


def variant_look(look: Look, position: int) -> Look:
    """The look of the i-th variant of a scheme: its hue in another shade, other marks and dashes."""
    if position == 0:
        return look
    steps = (0.45, -0.35, 0.65, -0.55, 0.25)
    return Look(
        shade(look.colour, steps[(position - 1) % len(steps)]),
        _MARKERS[(_MARKERS.index(look.marker) + position) % len(_MARKERS)]
        if look.marker in _MARKERS
        else _MARKERS[position % len(_MARKERS)],
        DASHES[(DASHES.index(look.dash) + position) % len(DASHES)],
    )


def other_data_look(look: Look, position: int) -> Look:
    """The look of a series on the i-th data set beside the figure's own: dotted, and its marks
    hollow (the first) or half filled."""
    dash = _OTHER_DATA[position % len(_OTHER_DATA)]
    return Look(look.colour, look.marker, dash, fill="left" if position % 2 else "none")


def shade(colour: str, amount: float) -> str:
    """`colour` mixed with white (amount above 0) or black (below).

    Example:
        >>> shade("#000000", 0.5), shade("#ffffff", -1.0)
        ('#808080', '#000000')
    """
    target = 255 if amount > 0 else 0
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(part + (target - part) * abs(amount)) for part in parts]
    return "#" + "".join(f"{part:02x}" for part in mixed)
