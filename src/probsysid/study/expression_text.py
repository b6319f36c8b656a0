"""A part of an equation as text, for messages."""

from probsysid.model.equations import Binary, Call, Minus, Node, Number, Symbol

RANK = {"<": 0, "<=": 0, ">": 0, ">=": 0, "+": 1, "-": 1, "*": 2, "/": 2, "**": 3}
"""How strongly operators bind."""


def text_of(node: Node) -> str:
    """The expression as it may have been written."""
    match node:
        case Number(text=text):
            return text
        case Symbol(name=name):
            return name
        case Minus(part=part):
            return f"-{text_of(part)}"
        case Call(function=name, arguments=arguments):
            return f"{name}({', '.join(text_of(a) for a in arguments)})"
        case Binary(operator=operator, left=left, right=right):
            sides = [_side(left, RANK[operator]), _side(right, RANK[operator] + (operator in "-/**"))]
            return (f" {operator} " if RANK[operator] < 2 else operator).join(sides)
    raise AssertionError(node)


def _side(node: Node, least: int) -> str:
    """In parentheses if it binds less than it has to."""
    weak = (isinstance(node, Binary) and RANK[node.operator] < least) or isinstance(node, Minus)
    return f"({text_of(node)})" if weak else text_of(node)
