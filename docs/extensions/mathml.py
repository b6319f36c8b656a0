"""Mathematics as MathML, generated when the site is built: browsers render it natively, without a script."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)


def _write(translator: Any, node: nodes.Element, as_block: bool) -> None:
    try:
        translator.body.append(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        LOG.warning("mathematics cannot be shown: %s", error, location=node)
    raise nodes.SkipNode


def _inline(translator: Any, node: nodes.Element) -> None:
    _write(translator, node, as_block=False)


def _block(translator: Any, node: nodes.Element) -> None:
    _write(translator, node, as_block=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
