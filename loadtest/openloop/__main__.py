"""`python -m loadtest.openloop FOLDER`: one run of the generator; see `loadtest.openloop.job`."""

import sys
from pathlib import Path

from loadtest.openloop.job import main

if __name__ == "__main__":
    main(Path(sys.argv[1]))
