"""Pictures with Chinese labels, the same bytes for the same picture.

The font is Noto Sans SC, from a package: what is installed on the machine does not matter. Matplotlib is imported when
the first picture is drawn, because that takes half a second.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pylopdf_fonts_zh_cn import sans_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

DOTS_PER_INCH = 110


def chinese_font(size: float) -> FontProperties:
    """Return the font of labels in points. Pass `parse_math=False` with a label: two dollar signs are no formula."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(fname=sans_path(), size=size)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches, which no window shows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png_of(figure: Figure, *, trimmed: bool = False) -> bytes:
    """Return a figure as a PNG, without the time or the program that drew it; `trimmed` cuts empty margins off."""
    target = io.BytesIO()
    box = "tight" if trimmed else None
    figure.savefig(target, format="png", dpi=DOTS_PER_INCH, bbox_inches=box, metadata={"Software": None})
    return target.getvalue()
