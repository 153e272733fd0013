"""The main plot as a file of its own: SVG for a page, PNG where only pixels are shown."""

from __future__ import annotations

from pathlib import Path

from autoprompt.errors import ConfigError, InputError
from autoprompt.report.html import environment
from autoprompt.report.plot import make_plot
from autoprompt.report.summary import RunSummary
from autoprompt.text.extras import install_extra

_ASSETS = Path(__file__).parent / "assets"
_ZOOM = 2.0  # pixels for each unit of the drawing: sharp on today's screens
_PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><style>{}</style>{}</svg>'


def svg(run: RunSummary, *, follows_theme: bool = True) -> str:
    """The plot as an SVG file. follows_theme: dark where the reader's system is, as browsers and GitHub do.

    Raises InputError for a run of which no candidate has been scored yet.
    """
    from markupsafe import Markup

    drawing = make_plot(run)
    if drawing is None:
        raise InputError(f"run {run.run_id} has no scored candidate yet: there is nothing to plot.")
    style = Markup(_style(follows_theme=follows_theme))
    context = {"run": run, "drawing": drawing, "style": style}
    return environment().get_template("plot_file.svg.j2").render(context) + "\n"


def _style(*, follows_theme: bool = False) -> str:
    style = (_ASSETS / "plot.css").read_text(encoding="utf-8")
    return style if follows_theme else style.partition("@media")[0]


def png(run: RunSummary) -> bytes:
    """The plot as PNG, light, 1440 pixels wide.

    Drawn by resvg out of the same SVG: 1.4 MB without dependencies, where matplotlib takes 30 MB, and a
    second chart that would differ from the first. Raises ConfigError without it, and where there is no font.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise ConfigError(
            f"a PNG needs resvg: {install_extra('report')}. An SVG needs nothing: -o plot.svg"
        ) from error
    drawn = svg(run, follows_theme=False)
    probes = (_PROBE.format(_style(), text) for text in ("", '<text y="15">Ag</text>'))
    if len({bytes(resvg_py.svg_to_bytes(svg_string=probe)) for probe in probes}) == 1:
        raise ConfigError(
            "there is no font on this machine, so that a PNG would be without its numbers: install one "
            "(apt-get install fonts-dejavu-core), or write an SVG: -o plot.svg"
        )
    return bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=_ZOOM, background="#ffffff"))
