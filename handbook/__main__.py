"""`python -m handbook FOLDER`: builds the site into FOLDER."""

import sys
from pathlib import Path

from handbook.build import build

_ARGUMENTS = 2

if len(sys.argv) != _ARGUMENTS:
    sys.exit("usage: python -m handbook FOLDER")
if problems := build(Path(sys.argv[1])):
    sys.exit("\n".join(problems))
