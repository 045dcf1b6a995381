"""Pictures as SVG files: drawn without a window system, text as text, the same bytes for the same figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from errors import Refused


@contextmanager
def svg_axes(path: Path, width: float, height: float, *, columns: int = 1) -> Iterator[Any]:
    """Yield matplotlib axes (an array of `columns` of them if more than one); the file is written after the block.

    Sizes are in inches. Raises Refused `no_matplotlib` where that is not installed.
    """
    try:
        # Here, because it takes a second to import and only pictures need it.
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise Refused("no_matplotlib", "plots need matplotlib: install the bench requirements") from error
    # The salt keeps the names inside the file the same every time.
    with mpl.rc_context({"svg.hashsalt": "hongbao", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.subplots(1, columns)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
