"""Settings of Sphinx for the documentation site. `docs/build` makes it; `handbook` has the reference pages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from runtime.version import VERSION

project = "hongbao"
author = "the hongbao authors"
copyright = "the hongbao authors, Apache-2.0"  # noqa: A001 - Sphinx' name
release = VERSION
extensions = ["myst_parser", "handbook.extension"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static"]
language = "en"

myst_enable_extensions = ["colon_fence"]
# Headings have an anchor of their words, as on sites that show Markdown.
myst_heading_anchors = 4
# A picture in a folder beside the page, and no Markdown that a page of Markdown would not show.
myst_links_external_new_tab = False

nitpicky = True
highlight_language = "none"

html_theme = "furo"
html_title = "hongbao"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#a8121b", "color-brand-content": "#a8121b"},
    "dark_css_variables": {"color-brand-primary": "#ff8a80", "color-brand-content": "#ff8a80"},
}
# No index of words and no copies of the sources: the search finds more, and the sources are in the repository.
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_permalinks_icon = "#"
pygments_style = "default"
pygments_dark_style = "github-dark"
# Straight quotes: fonts for Chinese, which these pages need too, draw the others as wide as a character.
smartquotes = False
