"""The documentation site (floor 10): makes HTML of `docs/`, with reference pages that are read from the code.

What lives here: `pages` knows which mark in a page stands for which part of the reference, and writes the parts into
the files of `docs/` (`docs/build --write`); `extension` has Sphinx read them made anew. `reference` lists the parts,
and `api`, `problems`, `commands`, `variables`, `figures`, `events` and `tables` write them as Markdown (`markdown` has
their tables and escapes; `examples` the example answers). `build` runs Sphinx, `markup` takes styles and scripts out of
its HTML, `links` finds links that lead nowhere. `docs/conf.py` holds the settings of Sphinx.

May import: every room. Nothing imports it but tests; no process of an installation needs it, and the wheel lacks it.

Promises, each with the test that keeps it:
- A warning of Sphinx or a link that leads nowhere fails the build (`test_a_broken_link_fails_the_build`).
- Every operation, problem, command, setting, metric, event and table of the code is in the site
  (tests/unit/handbook/test_reference.py).
- What pages have from the code stands in their files as well, and is not older than the code
  (tests/unit/handbook/test_pages.py).
- The HTML holds no script and no style of its own and loads nothing from elsewhere (`test_the_markup_is_strict`), so
  that a gateway can serve it under the policy of `gateway.site.handbook`.
- A folder that holds a site is replaced at once, when the new site is whole (`test_a_build_that_fails_keeps_the_site`).

How it fails: `python -m handbook FOLDER` or `--write` prints what is wrong and ends with 1.
"""
