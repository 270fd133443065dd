"""Figures out of times."""

from collections.abc import Sequence

import numpy as np


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile, in microseconds, and how many there were."""
    p50, p99 = np.quantile(np.asarray(seconds), (0.5, 0.99)) * 1e6
    return {"p50_us": float(p50), "p99_us": float(p99), "count": len(seconds)}
