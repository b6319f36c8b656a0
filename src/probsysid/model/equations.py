"""Equations as text: parsed against a whitelist, evaluated by JAX, never executed.

    rhs = parse("(force - c*dx - k*x - k3*x**3)/m")
    rhs.names                      # ('force', 'c', 'dx', 'k', 'x', 'k3', 'm')
    rhs.evaluate({"force": 1.0, ...})

Python's own parser turns the text into a syntax tree; each of its nodes must be on a whitelist and becomes one of the
five node types below.  Nothing is compiled to Python code, so a text cannot run anything.
"""

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp

from probsysid._internal.array_types import Scalar
from probsysid._internal.errors import InputError, did_you_mean

MAX_LENGTH = 4000
"""Largest number of characters: several pages of a chain of masses."""

MAX_DEPTH = 60
MAX_NODES = 2000

MAX_WHOLE_POWER = 64
"""Integer exponents up to this size stay integers, so that a negative base is allowed."""

CONSTANTS = {"pi": math.pi}


FUNCTIONS: dict[str, tuple[int, Callable[..., Scalar]]] = {
    "sin": (1, jnp.sin),
    "cos": (1, jnp.cos),
    "tan": (1, jnp.tan),
    "asin": (1, jnp.arcsin),
    "acos": (1, jnp.arccos),
    "atan": (1, jnp.arctan),
    "atan2": (2, jnp.arctan2),
    "sinh": (1, jnp.sinh),
    "cosh": (1, jnp.cosh),
    "tanh": (1, jnp.tanh),
    "exp": (1, jnp.exp),
    "log": (1, jnp.log),
    "log10": (1, jnp.log10),
    "sqrt": (1, jnp.sqrt),
    "abs": (1, jnp.abs),
    "sign": (1, jnp.sign),
    "min": (2, jnp.minimum),
    "max": (2, jnp.maximum),
    "where": (3, jnp.where),
}
"""Name -> number of arguments and function."""

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}
COMPARISONS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class EquationError(InputError):
    """A text is not an equation; `column` counts from 1."""

    def __init__(self, reason: str, column: int | None = None):
        super().__init__(reason if column is None else f"column {column}: {reason}")
        self.column = column


# The five node types of a parsed equation


@dataclass(frozen=True)
class Number:
    """A literal or a named constant."""

    value: float
    text: str


@dataclass(frozen=True)
class Symbol:
    """A state, an input or a parameter."""

    name: str
    column: int


@dataclass(frozen=True)
class Binary:
    """An operator or a comparison with two operands."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Minus:
    """A negation."""

    part: "Node"


@dataclass(frozen=True)
class Call:
    """A call of one of `FUNCTIONS`."""

    function: str
    arguments: tuple["Node", ...]


Node = Number | Symbol | Binary | Minus | Call


@dataclass(frozen=True)
class Equation:
    """A parsed text: an expression of named quantities."""

    text: str
    tree: Node

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every occurrence of a quantity, in the order of the text."""
        return tuple(_symbols(self.tree))

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities in the expression, in the order of the text."""
        return tuple(dict.fromkeys(symbol.name for symbol in self.symbols))

    def evaluate(self, values: Mapping[str, Scalar]) -> Scalar:
        """The value for given quantities: numbers, arrays or traced values."""
        return _evaluate(self.tree, values)

    def check_names(self, known: Mapping[str, str] | tuple[str, ...]) -> None:
        """Raise for the first unknown quantity."""
        for symbol in self.symbols:
            if symbol.name not in known:
                hint = did_you_mean(symbol.name, known)
                listed = ", ".join(known) or "none"
                raise EquationError(f"unknown name '{symbol.name}'; known are: {listed}.{hint}", symbol.column)


def parse(text: object) -> Equation:
    """Parse a text; raises `EquationError` with the column of the first element that is not allowed."""
    if not isinstance(text, str):
        raise EquationError(f"an equation is a text, not {text!r}.")
    if not text.strip():
        raise EquationError("the equation is empty.")
    if len(text) > MAX_LENGTH:
        raise EquationError(f"the equation has {len(text)} characters; at most {MAX_LENGTH} are allowed.")
    unprintable = next((c for c in text if not c.isprintable() and c not in "\n\t"), None)
    if unprintable is not None:
        raise EquationError("a character that cannot be printed is not allowed.", text.index(unprintable) + 1)
    if "#" in text:
        raise EquationError("a comment (#) is not allowed inside an equation.", text.index("#") + 1)
    line = text.replace("\n", " ").replace("\t", " ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)  # such as 0if: refused, not remarked on
            tree = ast.parse(line.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _syntax(line, error) from None
    return Equation(text, _Reader(line).read(tree.body, MAX_DEPTH))


def _syntax(line: str, error: Exception) -> EquationError:
    """The parser's error as one of ours."""
    indent = len(line) - len(line.lstrip())
    if isinstance(error, SyntaxError) and error.offset is not None:
        column = min(max(error.offset, 1), len(line.strip()) + 1) + indent
        return EquationError(f"this is not an expression ({error.msg}).", column)
    return EquationError("this is not an expression that can be read.")


class _Reader:
    """Converts whitelisted nodes of Python's syntax tree to ours."""

    def __init__(self, line: str):
        self.line = line.strip()
        self.indent = len(line) - len(line.lstrip())
        self.nodes = 0

    def read(self, node: ast.AST, depth: int) -> Node:
        self.nodes += 1
        if depth <= 0:
            raise self._refuse(node, f"the equation is nested deeper than {MAX_DEPTH} levels.")
        if self.nodes > MAX_NODES:
            raise self._refuse(node, f"the equation has more than {MAX_NODES} parts.")
        match node:
            case ast.Constant():
                return self._number(node)
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Minus(self.read(operand, depth - 1))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.read(operand, depth - 1)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                parts = self.read(left, depth - 1), self.read(right, depth - 1)
                return self._finite(node, Binary(OPERATORS[type(op)], *parts))
            case ast.Call():
                return self._call(node, depth)
            case ast.Compare():
                raise self._refuse(node, "a comparison stands only in where(condition, then, otherwise).")
        raise self._refuse(node, _reason(node))

    def _number(self, node: ast.Constant) -> Number:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise self._refuse(node, f"{self._source(node)} is not a number.")
        try:
            value = float(node.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self._refuse(node, f"the number {self._source(node)} is too large.")
        return Number(value, ast.get_source_segment(self.line, node) or repr(value))

    def _name(self, node: ast.Name) -> Node:
        if node.id in CONSTANTS:
            return Number(CONSTANTS[node.id], node.id)
        if node.id in FUNCTIONS:
            raise self._refuse(node, f"'{node.id}' is a function; write {node.id}(...).")
        if node.id.startswith("_") or "__" in node.id:
            raise self._refuse(
                node, f"the name '{node.id}' is not allowed: names have no leading or double underscore."
            )
        return Symbol(node.id, self._column(node))

    def _call(self, node: ast.Call, depth: int) -> Node:
        if not isinstance(node.func, ast.Name):
            raise self._refuse(node, _reason(node.func) if not isinstance(node.func, ast.Call) else _reason(node))
        name = node.func.id
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS)
            raise self._refuse(node, f"unknown function '{name}'; known are: {', '.join(FUNCTIONS)}.{hint}")
        count, _ = FUNCTIONS[name]
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self._refuse(node, f"'{name}' takes plain arguments, no keywords and no stars.")
        if len(node.args) != count:
            raise self._refuse(node, f"'{name}' takes {count} argument{'s' * (count > 1)}, found {len(node.args)}.")
        if name == "where":
            arguments = (self._condition(node.args[0], depth - 1), *(self.read(a, depth - 1) for a in node.args[1:]))
        else:
            arguments = tuple(self.read(a, depth - 1) for a in node.args)
        return self._finite(node, Call(name, arguments))

    def _finite(self, node: ast.AST, read: Binary | Call) -> Node:
        """The node itself; refused if it is not finite whatever the quantities are: 1/0, x/0, log(-1), 10**400."""
        if isinstance(read, Binary) and read.operator == "/" and _value(read.right) == 0:
            raise self._refuse(node, f"{self._source(node)} divides by zero.")
        value = _value(read)
        if value is not None and not math.isfinite(value):
            raise self._refuse(node, f"{self._source(node)} is {value}, not a finite number.")
        return read

    def _condition(self, node: ast.AST, depth: int) -> Node:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in COMPARISONS:
            raise self._refuse(node, "the condition of where(...) is one comparison: <, <=, > or >=.")
        operator = COMPARISONS[type(node.ops[0])]
        return Binary(operator, self.read(node.left, depth - 1), self.read(node.comparators[0], depth - 1))

    def _refuse(self, node: ast.AST, reason: str) -> EquationError:
        return EquationError(reason, self._column(node))

    def _column(self, node: ast.AST) -> int:
        """Column of a node, of an operation at its operator, in characters; Python counts bytes of UTF-8."""
        offset = node.left.end_col_offset if isinstance(node, ast.BinOp) else getattr(node, "col_offset", 0)
        before = len(self.line.encode()[:offset].decode(errors="ignore"))
        while isinstance(node, ast.BinOp) and self.line[before] in " )":
            before += 1
        return before + self.indent + 1

    def _source(self, node: ast.AST) -> str:
        found = ast.get_source_segment(self.line, node) or type(node).__name__
        return found if len(found) <= 40 else found[:37] + "..."


_REASONS: dict[type[ast.AST], str] = {
    ast.Attribute: "attribute access (a dot after a name) is not allowed.",
    ast.Subscript: "square brackets after a name are not allowed.",
    ast.Lambda: "lambda is not allowed.",
    ast.IfExp: "if ... else is not allowed; use where(condition, then, otherwise).",
    ast.BoolOp: "and, or are not allowed; nest where(...) instead.",
    ast.NamedExpr: "assignment is not allowed.",
    ast.Await: "await is not allowed.",
    ast.JoinedStr: "text is not allowed.",
    ast.Tuple: "a comma stands only between the arguments of a function.",
    ast.List: "lists are not allowed.",
    ast.Set: "sets are not allowed.",
    ast.Dict: "dictionaries are not allowed.",
    ast.Starred: "a star is not allowed here.",
}


def _reason(node: ast.AST) -> str:
    """The reason for refusing a node."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        return "'^' is not a power here; write ** (x**3)."
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return f"the operator '{type(node.op).__name__}' is not allowed; use + - * / **."
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return "comprehensions are not allowed."
    return _REASONS.get(type(node), f"{type(node).__name__} is not allowed in an equation.")


def _value(node: Node) -> float | None:
    """The value of a node without quantities; None for others."""
    return None if _symbols(node) else float(_evaluate(node, {}))


def _symbols(node: Node) -> list[Symbol]:
    match node:
        case Symbol():
            return [node]
        case Binary(left=left, right=right):
            return [*_symbols(left), *_symbols(right)]
        case Minus(part=part):
            return _symbols(part)
        case Call(arguments=arguments):
            return [symbol for argument in arguments for symbol in _symbols(argument)]
    return []


def _evaluate(node: Node, values: Mapping[str, Scalar]) -> Scalar:
    match node:
        case Number(value=value):
            return value
        case Symbol(name=name):
            return values[name]
        case Minus(part=part):
            return -_evaluate(part, values)
        case Call(function=function, arguments=arguments):
            return FUNCTIONS[function][1](*(_evaluate(a, values) for a in arguments))
        case Binary(operator="**", left=left, right=right):
            return _power(_evaluate(left, values), right, values)
        case Binary(operator=operator, left=left, right=right):
            return _combine(operator, _evaluate(left, values), _evaluate(right, values))
    raise AssertionError(f"unknown node {node!r}")


def _combine(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """Apply an operator through JAX, which does not raise: 1/0 is infinite, and checked by the caller."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return jnp.divide(left, right)
        case "<":
            return jnp.less(left, right)
        case "<=":
            return jnp.less_equal(left, right)
        case ">":
            return jnp.greater(left, right)
    return jnp.greater_equal(left, right)


def _power(base: Scalar, exponent: Node, values: Mapping[str, Scalar]) -> Scalar:
    whole = whole_number(exponent)
    if whole is not None:
        return jnp.asarray(base, dtype=float) ** whole
    return jnp.power(base, _evaluate(exponent, values))


def whole_number(node: Node) -> int | None:
    """The value of a literal that is a small integer, such as an exponent; otherwise None."""
    sign = 1
    while isinstance(node, Minus):
        sign, node = -sign, node.part
    if isinstance(node, Number) and node.value == round(node.value) and node.value <= MAX_WHOLE_POWER:
        return sign * round(node.value)
    return None
