"""Settings of the site: `make docs` builds it to site/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

from probsysid import __version__ as release

__all__ = ["release"]

project = "probsysid"
author = "The probsysid developers"
copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "signatures",
    "tables",
    "tutorials",
]
smartquotes = False  # names and values are quoted as in code
exclude_patterns = ["extensions", "_static"]

# Markdown
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
highlight_language = "sh"  # blocks without a language are commands
html_math_renderer = "mathml"

# Docstrings: `name` is code, as in Markdown
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # would repeat one text for each of several names
napoleon_attr_annotations = False  # names of axes, `*_shape particle`, are no emphasis

# Nothing is loaded from elsewhere: system fonts, no icons, mathematics as MathML
html_theme = "furo"
html_title = "probsysid"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # would fetch pages, which browsers forbid to a file
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
