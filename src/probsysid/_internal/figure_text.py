"""Labels of figures as they were written: a dollar sign in a name or a unit does not begin a formula."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def literal_labels(figure: "Figure") -> None:
    """Show titles, labels and legends as plain text; matplotlib would end with an error on half a formula."""
    from matplotlib.text import Text  # late, for matplotlib takes long to import

    for axis in figure.axes:
        legend = axis.get_legend()
        texts = [child for child in axis.get_children() if isinstance(child, Text)]  # titles among them
        texts += [axis.xaxis.label, axis.yaxis.label, *(legend.get_texts() if legend is not None else [])]
        for text in texts:
            text.set_parse_math(False)
