"""The few shapes of queries that the dashboards use, each over the instances that are chosen in Grafana."""

CHOSEN = 'instance=~"$instance"'


def series(name: str, *matchers: str) -> str:
    """A series of the chosen instances."""
    return f"{name}{{{', '.join([CHOSEN, *matchers])}}}"


def rate(name: str, *matchers: str) -> str:
    """How fast a counter rises, per second."""
    return f"rate({series(name, *matchers)}[$__rate_interval])"


def rise(name: str, *matchers: str) -> str:
    """By how much a counter rose in the range that is shown."""
    return f"increase({series(name, *matchers)}[$__range])"


def recent(name: str, *matchers: str) -> str:
    """By how much a counter rose in the five minutes before each point: for what is rare."""
    return f"increase({series(name, *matchers)}[5m])"


def total(expression: str, *labels: str) -> str:
    """The sum over instances and over all labels but these."""
    return f"sum by ({', '.join(labels)}) ({expression})" if labels else f"sum({expression})"


def largest(expression: str, *labels: str) -> str:
    """The largest over all labels but these."""
    return f"max by ({', '.join(labels)}) ({expression})"


def ratio(part: str, whole: str) -> str:
    """A part of a whole; nothing while there is no whole."""
    return f"{part} / ({whole} > 0)"


def quantile(share: float, histogram: str, *labels: str, matchers: tuple[str, ...] = ()) -> str:
    """A quantile of a histogram, estimated from its buckets."""
    buckets = total(rate(f"{histogram}_bucket", *matchers), "le", *labels)
    return f"histogram_quantile({share}, {buckets})"
