"""Equations as MathML, which browsers typeset natively.

Derivatives get dots, Greek names become letters, trailing digits and underscores subscripts, and divisions fractions.
"""

import re
from collections.abc import Mapping
from html import escape

from probsysid.model.components import derivative_name
from probsysid.model.equations import Binary, Call, Equation, Minus, Node, Number, Symbol

_NAMES = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
GREEK = dict(zip(_NAMES, "αβγδεζηθικλμνξοπρστυφχψω", strict=True))
CAPITALS = {name.capitalize(): chr(ord(letter) - 0x20) for name, letter in GREEK.items()}
LETTERS = {**GREEK, **CAPITALS}

DOTS = {1: ("\u0307", "\u02d9"), 2: ("\u0308", "\u00a8"), 3: ("\u20db", "\u20db")}
"""Derivative -> combining dots for a low letter, and separate dots for words and tall letters."""

LOW = "acegmnopqrsuvwxyzαγεηικμνοπρστυχω"
"""Letters without an ascender: on one, as in h, a combining dot reads as a bar."""

STRUT_ABOVE, STRUT_BELOW = '<mspace depth="0.3em"/>', '<mspace height="0.9em"/>'
"""Space around a fraction's bar, which browsers without a mathematical font omit."""

THIN = '<mspace width="0.17em"/>'
"""The space between a factor and a function's name."""

WITHOUT_NAME = ("sqrt", "abs", "exp", "where")
"""Functions with a notation of their own in place of a name."""

PRECEDENCE = {"<": 0, "<=": 0, ">": 0, ">=": 0, "+": 1, "-": 1, "*": 2, "/": 2, "**": 4}
SIGN_PRECEDENCE = 2
ATOM = 9

COMPARISONS = {"<": "&lt;", "<=": "≤", ">": "&gt;", ">=": "≥"}


def equation_of_motion(coordinate: str, order: int, right: Equation, coordinates: Mapping[str, int]) -> str:
    """`ẍ = ...` as a block of MathML."""
    parts = derivatives(coordinates)
    left = symbol(derivative_name(coordinate, order), parts)
    return _block(f"{left}<mo>=</mo>{_draw(right.tree, parts)}")


def output_equation(name: str, right: Equation, coordinates: Mapping[str, int]) -> str:
    """`y = ...` as a block of MathML; the output's name is a word."""
    return _block(f"<mtext>{escape(name)}</mtext><mo>=</mo>{_draw(right.tree, derivatives(coordinates))}")


def intermediate(name: str, right: Equation, coordinates: Mapping[str, int]) -> str:
    """An intermediate expression as a block of MathML, with its name as it is drawn in the equations."""
    parts = derivatives(coordinates)
    return _block(f"{symbol(name, parts)}<mo>=</mo>{_draw(right.tree, parts)}")


def inline(name: str, coordinates: Mapping[str, int]) -> str:
    """A quantity inside a sentence."""
    return f"<math>{symbol(name, derivatives(coordinates))}</math>"


def derivatives(coordinates: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Name of each component -> its coordinate and order of derivative."""
    return {derivative_name(c, i): (c, i) for c, order in coordinates.items() for i in range(order + 1)}


def symbol(name: str, parts: Mapping[str, tuple[str, int]]) -> str:
    """A quantity: a letter with dots and subscript."""
    base, count = parts.get(name, (name, 0))
    letter, below = _split(base)
    drawn = f"<mi>{letter}</mi>" if len(letter) == 1 else f'<mi mathvariant="normal">{letter}</mi>'
    if count in DOTS:
        joined, alone = DOTS[count]
        above = f"<mover>{drawn}<mo stretchy='false'>{alone}</mo></mover>"
        drawn = f"<mi>{_italic(letter)}{joined}</mi>" if letter in LOW else above
    elif count:
        drawn = f"<msup>{drawn}<mtext>({count})</mtext></msup>"
    return f'<msub>{drawn}<mi mathvariant="normal">{below}</mi></msub>' if below else drawn


def _italic(letter: str) -> str:
    """The mathematical italic of a letter, for an <mi> with more than one character, which is not slanted by itself."""
    for first, last, start in (("A", "Z", 0x1D434), ("a", "z", 0x1D44E), ("α", "ω", 0x1D6FC)):
        if first <= letter <= last and letter != "h":
            return chr(start + ord(letter) - ord(first))
    return "\u210e" if letter == "h" else letter


def _split(name: str) -> tuple[str, str]:
    """Letter and subscript: `k3` -> k, 3; `F_c` -> F, c; `alpha` -> α; `xg` stays a word."""
    head, _, tail = name.partition("_")
    match = re.fullmatch(r"([^\W\d]+)(\d+)", head)
    if match:
        head, tail = match[1], f"{match[2]} {tail}".strip()
    return escape(LETTERS.get(head, head)), escape(tail.replace("_", " "))


def _block(content: str) -> str:
    return f'<math display="block"><mrow>{content}</mrow></math>'


def _draw(node: Node, parts: Mapping[str, tuple[str, int]], within: int = 0) -> str:
    """The node, in brackets if it binds less tightly than its context."""
    drawn = f"<mrow>{_bare(node, parts)}</mrow>"
    return f"<mrow><mo>(</mo>{drawn}<mo>)</mo></mrow>" if _binding(node) < within else drawn


def _binding(node: Node) -> int:
    match node:
        case Binary(operator="/"):
            return ATOM  # the bar groups a fraction
        case Binary(operator=operator):
            return PRECEDENCE[operator]
        case Minus():
            return SIGN_PRECEDENCE - 1
        case Number(text=text) if "e" in text.lower() and text != "pi":
            return PRECEDENCE["*"]
    return ATOM


def _bare(node: Node, parts: Mapping[str, tuple[str, int]]) -> str:
    match node:
        case Number():
            return _number(node)
        case Symbol(name=name):
            return symbol(name, parts)
        case Minus(part=part):
            return f"<mo>−</mo>{_draw(part, parts, PRECEDENCE['*'])}"
        case Call():
            return _call(node, parts)
        case Binary(operator="/", left=left, right=right):
            above, below = _draw(left, parts), _draw(right, parts)
            return f"<mfrac><mrow>{STRUT_ABOVE}{above}</mrow><mrow>{STRUT_BELOW}{below}</mrow></mfrac>"
        case Binary(operator="**", left=left, right=right):
            within = ATOM + (isinstance(left, Binary) and left.operator == "/")
            return f"<msup>{_draw(left, parts, within)}{_draw(right, parts)}</msup>"
        case Binary(operator="*", left=left, right=right):
            dotted = isinstance(_rightmost(left), Number | Call) or _starts_number(right)
            between = "<mo>·</mo>" if dotted else "<mo>\u2062</mo>" + THIN * _crowded(left, right, parts)
            return f"{_draw(left, parts, 2)}{between}{_draw(right, parts, 2)}"
        case Binary(operator="-", left=left, right=right):
            return f"{_draw(left, parts, 1)}<mo>−</mo>{_draw(right, parts, 2)}"
        case Binary(operator="+", left=left, right=right):
            return f"{_draw(left, parts, 1)}<mo>+</mo>{_draw(right, parts, 1)}"
        case Binary(operator=operator, left=left, right=right):
            return f"{_draw(left, parts)}<mo>{COMPARISONS[operator]}</mo>{_draw(right, parts)}"
    raise AssertionError(f"unknown node {node!r}")


def _crowded(left: Node, right: Node, parts: Mapping[str, tuple[str, int]]) -> bool:
    """Whether adjacent factors would read as one word: a word or a function's name beside another factor."""

    def is_word(node: Node) -> bool:
        if isinstance(node, Symbol):
            base, _ = parts.get(node.name, (node.name, 0))
            return len(_split(base)[0]) > 1
        return isinstance(node, Call) and node.function not in WITHOUT_NAME

    return is_word(_rightmost(left)) or is_word(_leftmost(right))


def _rightmost(node: Node) -> Node:
    while isinstance(node, Binary) and node.operator == "*":
        node = node.right
    return node


def _leftmost(node: Node) -> Node:
    while isinstance(node, Binary) and node.operator in ("*", "**"):
        node = node.left
    return node


def _starts_number(node: Node) -> bool:
    return isinstance(_leftmost(node), Number)


def _number(node: Number) -> str:
    if node.text == "pi":
        return "<mi>π</mi>"
    mantissa, _, exponent = node.text.lower().replace("_", "").partition("e")
    if not exponent or node.text.lower().startswith("0x"):
        return f"<mn>{escape(node.text.replace('_', ''))}</mn>"
    power = f"<msup><mn>10</mn><mn>{escape(str(int(exponent)).replace('-', '−'))}</mn></msup>"
    return power if mantissa in ("1", "1.", "1.0") else f"<mn>{escape(mantissa)}</mn><mo>·</mo>{power}"


def _call(node: Call, parts: Mapping[str, tuple[str, int]]) -> str:
    drawn = [_draw(argument, parts) for argument in node.arguments]
    match node.function:
        case "sqrt":
            return f"<msqrt>{drawn[0]}</msqrt>"
        case "abs":
            return f"<mrow><mo>|</mo>{drawn[0]}<mo>|</mo></mrow>"
        case "exp":
            return f"<msup><mi>e</mi>{drawn[0]}</msup>"
        case "where":
            rows = ((drawn[1], f"<mtext>if&#160;</mtext>{drawn[0]}"), (drawn[2], "<mtext>otherwise</mtext>"))
            cells = "".join(f"<mtr><mtd>{value}</mtd><mtd>{when}</mtd></mtr>" for value, when in rows)
            return f'<mrow><mo>{{</mo><mtable columnalign="left">{cells}</mtable></mrow>'
    return f"<mi>{node.function}</mi><mo>(</mo>{'<mo>,</mo>'.join(drawn)}<mo>)</mo>"
