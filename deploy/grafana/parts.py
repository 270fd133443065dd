"""What the dashboards are made of, and how it becomes what Grafana reads.

Every panel has a unit and a description that says what it means and what to do. Every dashboard lets its reader choose the
data source and the instances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from string import ascii_uppercase

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

TAG = "kvstow"
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH = 24


class Unit(Enum):
    """Units that the panels use, as Grafana names them."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    COUNT = "short"
    PER_SECOND = "ops"
    SECONDS = "s"
    SHARE = "percentunit"
    YES_OR_NO = "bool_yes_no"


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    Args:
        expression: PromQL.
        legend: of its series, with labels in double braces.
    """

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Series over time.

    Args:
        title: what is shown.
        unit: of its values.
        description: what it means, and what to do.
        queries: what is drawn.
        stacked: the series are parts of a whole.
        full: a share, of which the axis shows all, from 0 to 1.
    """

    title: str
    unit: Unit
    description: str
    queries: Sequence[Query]
    stacked: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, or one for each series.

    Args:
        title, unit, description: as of a chart.
        query: what is shown.
        bad_from: from which value on it is red; None for never.
        bad_below: below which value it is red; None for never.
    """

    title: str
    unit: Unit
    description: str
    query: Query
    bad_from: float | None = None
    bad_below: float | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of the series that there are now."""

    title: str
    unit: Unit
    description: str
    query: Query


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that belong together; figures stand side by side, and so do charts."""

    title: str
    panels: Sequence[Chart | Figure | Listing]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard.

    Args:
        name: of its file and in its address.
        title: what people see.
        description: the question that it answers.
        rows: its panels.
    """

    name: str
    title: str
    description: str
    rows: Sequence[Row]


def built(dashboard: Dashboard) -> models.Dashboard:
    """The dashboard as Grafana reads it."""
    builder = (
        builders.Dashboard(dashboard.title)
        .uid(f"kvstow-{dashboard.name}")
        .description(dashboard.description)
        .tags([TAG])
        .readonly()
        .refresh("30s")
        .time("now-3h", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(_siblings())
        .with_variable(
            builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_instances())
    )
    ids = count(1)
    for row in dashboard.rows:
        builder.with_row(builders.Row(row.title).id(next(ids)))
        for panel in row.panels:
            builder.with_panel(_panel(panel, len(row.panels)).id(next(ids)))
    return builder.build()


def _siblings() -> builders.DashboardLink:
    return (
        builders.DashboardLink("kvstow")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )


def _instances() -> builders.QueryVariable:
    return (
        builders.QueryVariable("instance")
        .label("Instance")
        .datasource(_SOURCE)
        .query("label_values(kvstow_ready, instance)")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(
    panel: Chart | Figure | Listing, siblings: int
) -> timeseries.Panel | stat.Panel | table.Panel:
    """A panel of a row that has so many; charts stand two or three side by side."""
    match panel:
        case Chart():
            return _chart(panel).span(_WIDTH // (3 if siblings % 3 == 0 else 2)).height(8)
        case Figure():
            return _figure(panel).span(_WIDTH // siblings).height(4)
        case Listing():
            return _listing(panel).span(_WIDTH).height(6)


def _chart(chart: Chart) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(chart.title)
        .description(chart.description)
        .datasource(_SOURCE)
        .unit(chart.unit.value)
        .min(0)
        .fill_opacity(60 if chart.stacked else 10)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builders.VizLegendOptions()
            .show_legend(True)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
        )
        .tooltip(
            common_builders.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )
    if chart.stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if chart.full:
        panel.max(1)
    for letter, query in zip(ascii_uppercase, chart.queries, strict=False):
        panel.with_target(_target(query, letter).range())
    return panel


def _figure(figure: Figure) -> stat.Panel:
    return (
        stat.Panel()
        .title(figure.title)
        .description(figure.description)
        .datasource(_SOURCE)
        .unit(figure.unit.value)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(figure))
        .with_target(_target(figure.query, "A").instant())
    )


def _thresholds(figure: Figure) -> builders.ThresholdsConfig:
    steps = [models.Threshold(value=None, color="text")]
    if figure.bad_from is not None:
        steps.append(models.Threshold(value=figure.bad_from, color="red"))
    if figure.bad_below is not None:
        steps = [
            models.Threshold(value=None, color="red"),
            models.Threshold(value=figure.bad_below, color="text"),
        ]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _listing(listing: Listing) -> table.Panel:
    return (
        table.Panel()
        .title(listing.title)
        .description(listing.description)
        .datasource(_SOURCE)
        .unit(listing.unit.value)
        .with_target(_target(listing.query, "A").instant().format(PromQueryFormat.TABLE))
    )


def _target(query: Query, letter: str) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .ref_id(letter)
        .datasource(_SOURCE)
        .expr(query.expression)
        .legend_format(query.legend)
    )
