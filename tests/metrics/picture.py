"""Draws the charts of the overview dashboard from a real Prometheus that watched a real daemon live through all scenes.

`make metrics-picture` runs it; the only argument is where the picture goes.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from metrics.prometheus import ALERTS, RULES, Prometheus, Series, running_prometheus
from metrics.scenes import SETTINGS, play
from metrics.written import PanelQuery, panel_queries, panels
from support.kvstowd import running_kvstowd

PACE_S = 8.0
STEP_S = 0.25
COLUMNS = 2
UNITS: dict[str, Callable[[float], str]] = {
    "percentunit": lambda value: f"{value:.0%}",
    "bytes": lambda value: f"{value / (1 << 20):.3g} MiB",
    "Bps": lambda value: f"{value / 1e6:.4g} MB/s",
    "ops": lambda value: f"{value:.4g} /s",
    "s": lambda value: f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms",
}
SHOWN = ("work", "pressure", "hang", "recovery", "no room", "calm")
"""Scenes that have their name in the picture; those that pass at once belong to the next of these."""


@dataclass
class Picture:
    """What is drawn.

    Args:
        prometheus: who saw it.
        began: Unix time.
        ends: when each scene ended, in seconds after that.
        charts: the queries of each chart, with their answers.
    """

    prometheus: Prometheus
    began: float
    ends: dict[str, float] = field(default_factory=dict)
    charts: dict[str, list[tuple[PanelQuery, list[Series]]]] = field(default_factory=dict)

    def seen(self, scene: str) -> None:
        """A scene ends; with the last of them all is asked for."""
        if scene in SHOWN:
            self.ends[scene] = time.time() - self.began
        if scene == SHOWN[-1]:
            for query in panel_queries():
                if (query.dashboard, query.panel) in CHARTS:
                    found = self.prometheus.over(query.expression, self.began, time.time(), STEP_S)
                    self.charts.setdefault(query.panel, []).append((query, found))

    def draw(self) -> Figure:
        """All charts."""
        rows = -(-len(self.charts) // COLUMNS)
        figure = Figure(figsize=(7 * COLUMNS, 2.9 * rows), layout="constrained")
        places = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
        for axes, (title, answers) in zip(places, self.charts.items(), strict=False):
            self._chart(axes, title, answers)
        for axes in places[len(self.charts) :]:
            axes.set_axis_off()
        return figure

    def _chart(
        self, axes: Axes, title: str, answers: Sequence[tuple[PanelQuery, list[Series]]]
    ) -> None:
        lines = [
            (legend(query, each), dict(each.values)) for query, found in answers for each in found
        ]
        if CHARTS["overview", title]:
            times = sorted({moment for _, values in lines for moment in values})
            heights = [[values.get(moment, 0.0) for moment in times] for _, values in lines]
            since = [moment - self.began for moment in times]
            axes.stackplot(since, heights, labels=[name for name, _ in lines], alpha=0.7)
        else:
            for name, values in lines:
                axes.plot(
                    [moment - self.began for moment in values], [*values.values()], label=name
                )
        self._frame(axes, title, answers[0][0].unit)

    def _frame(self, axes: Axes, title: str, unit: str) -> None:
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=16)
        axes.set_xlim(0, self.ends[SHOWN[-1]])
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(partial(written, UNITS[unit])))
        if unit == "bytes":
            axes.yaxis.set_major_locator(MultipleLocator(2 << 20))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        begin = 0.0
        for scene, end in self.ends.items():
            axes.axvline(end, color="black", linewidth=0.6, linestyle=":")
            axes.annotate(
                scene,
                ((begin + end) / 2, 1.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                fontsize=8,
                color="dimgray",
            )
            begin = end


def written(unit: Callable[[float], str], value: float, _: int) -> str:
    """A value on an axis."""
    return unit(value)


def legend(query: PanelQuery, series: Series) -> str:
    """The name of a series, as Grafana would write it."""
    return re.sub(
        r"{{(\w+)}}", lambda label: series.labels.get(label[1], ""), query.legend
    ).strip()


CHARTS = {
    (dashboard, panel["title"]): panel["fieldConfig"]["defaults"]["custom"].get("stacking")
    is not None
    for dashboard, panel in panels()
    if dashboard == "overview" and panel["type"] == "timeseries"
}
"""The charts of the overview, and whether they are stacked."""


def main() -> None:
    """Play, watch, draw."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        directory = Path(name)
        with running_kvstowd(directory, **SETTINGS) as daemon:
            url = daemon.wait_line("metrics served")["url"]
            with running_prometheus(directory, url, [RULES, ALERTS]) as prometheus:
                picture = Picture(prometheus, time.time())
                play(daemon, PACE_S, picture.seen)
    picture.draw().savefig(sys.argv[1], dpi=80)


if __name__ == "__main__":
    main()
