"""What a metric family is, and how it becomes samples."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString


class Kind(Enum):
    """How the samples of a family behave."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Args:
        name: as it is queried; a histogram's without its suffixes.
        kind: how it behaves.
        unit: what is counted or measured.
        meaning: what it says, in a sentence or two.
        labels: names of its labels, each with the values that it takes.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of its labels, in the order in which rows give their values."""
        return tuple(name for name, _ in self.labels)

    @property
    def stem(self) -> str:
        """The name without the suffix that every counter has."""
        return self.name.removesuffix("_total")

    def rows(self, rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
        """The family of a counter or gauge: for each row the values of its labels, and its value."""
        unit = self.unit if self.stem.endswith(f"_{self.unit}") else ""
        make = CounterMetricFamily if self.kind is Kind.COUNTER else GaugeMetricFamily
        family = make(self.stem, self.meaning, labels=self.label_names, unit=unit)
        for labels, value in rows:
            family.add_metric(labels, value)
        return family

    def one(self, value: float) -> Metric:
        """The family of a counter or gauge without labels."""
        return self.rows([((), value)])

    def counted(self, bounds: Sequence[float], counts: Sequence[int], total: float) -> Metric:
        """The family of a histogram without labels.

        Args:
            bounds: upper bounds of the buckets, rising; one more bucket has none.
            counts: observations in each bucket.
            total: sum of all observations.
        """
        family = HistogramMetricFamily(self.name, self.meaning, labels=())
        so_far, buckets = 0, []
        for bound, count in zip([*map(floatToGoString, bounds), "+Inf"], counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        family.add_metric((), buckets, total)
        return family
