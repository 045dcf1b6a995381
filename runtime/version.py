"""The version of the product: of the package, of `hongbao --version`, and of the OpenAPI document.

Hatchling reads it as text, so it must stay a plain assignment. It is not read from the package's metadata, because a
checkout runs without being installed.
"""

VERSION = "0.1.0"
