"""Distributions: every value is counted once, in the right place."""

from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.core.distributions import Distribution

BOUNDS = (1.0, 4.0, 16.0)


def test_bounds_belong_to_what_is_below_them() -> None:
    found = Distribution(BOUNDS)
    for value in (0.0, 1.0, 1.5, 4.0, 17.0):
        found.record(value)
    found.record(16.0, times=3)
    assert found.counts == [2, 2, 3, 1]
    assert found.total == 71.5


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5))))
def test_every_value_is_counted_once(recorded: list[tuple[int, int]]) -> None:
    found = Distribution(BOUNDS)
    for value, times in recorded:
        found.record(value, times)
    assert found.total == sum(value * times for value, times in recorded)
    for at, bound in enumerate(BOUNDS):
        below = sum(times for value, times in recorded if value <= bound)
        assert sum(found.counts[: at + 1]) == below
    assert sum(found.counts) == sum(times for _, times in recorded)
