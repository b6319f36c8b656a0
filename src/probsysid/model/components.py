"""Names of the components of a state."""


def derivative_name(coordinate: str, derivative: int) -> str:
    """`x`, `dx`, `ddx`, ..."""
    return "d" * derivative + coordinate
