"""The version, said once: the package is built with it, `hongbao --version` and the OpenAPI document tell it.

Read as text by hatchling, so this stays a plain assignment. Here and not in the package's metadata, because a checkout
runs without being installed.
"""

VERSION = "0.1.0"
