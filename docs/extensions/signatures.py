"""Signatures as users need them: none for what they never construct, and no `<factory>`."""

import re
from typing import Any

from sphinx.application import Sphinx

RESULTS = ("Posterior", "Solution", "Simulation", "States")
"""Classes whose objects come from functions."""


def readable(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """The signature to print."""
    if what == "class" and name.rsplit(".", 1)[-1] in RESULTS:
        return "", returns
    if signature and "<factory>" in signature:
        return re.sub(r"<factory>", "{}", signature), returns
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Process every signature."""
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
