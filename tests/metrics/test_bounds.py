"""Series stay few, and counters never fall, whatever clients call themselves and however spaces come and go."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.core.snapshot import SpaceView
from kvstow.server.core.spaces import SpaceCounters
from kvstow.server.core.types import Group, Identity, KeyScheme, Layout, SpaceId
from kvstow.server.metrics.labels import OTHER, BoundedLabels
from kvstow.server.metrics.spaces import COUNTED, GAUGED, SpaceSums

LAYOUT = Layout("float16", 16, 1, "", (Group((64,)),))


def a_space(number: int, model: str, lookups: int, ready: int) -> SpaceView:
    """A space that has counted lookups and has blocks."""
    return SpaceView(
        SpaceId(number),
        Identity("tenant", model, "1", LAYOUT, KeyScheme("sha256", 16, b"")),
        generation=1,
        sessions=0,
        ready_blocks=ready,
        writing_blocks=0,
        draining=(),
        counters=SpaceCounters(lookups=lookups),
    )


def shown(sums: SpaceSums, spaces: Sequence[SpaceView]) -> Mapping[str, Mapping[str, float]]:
    """Lookups and READY blocks by model."""
    found: dict[str, dict[str, float]] = {"lookups": {}, "ready": {}}
    for family in sums.collect(spaces):
        for sample in family.samples:
            if sample.name == "kvstow_lookups_total":
                found["lookups"][sample.labels["model"]] = sample.value
            if sample.labels.get("state") == "ready":
                found["ready"][sample.labels["model"]] = sample.value
    return found


def test_the_first_values_get_labels_of_their_own_and_later_ones_share_one() -> None:
    labels = BoundedLabels(2, 2)
    assert [labels.of("a", name) for name in "xyzx"] == [
        ("a", "x"),
        ("a", "y"),
        (OTHER, OTHER),
        ("a", "x"),
    ]
    assert labels.all() == [("a", "x"), ("a", "y")]


def test_a_long_name_is_cut() -> None:
    assert len(BoundedLabels(1, 1).of("x" * 10_000)[0]) == 120


def test_a_space_that_is_gone_leaves_its_counts_and_no_blocks() -> None:
    sums = SpaceSums()
    shown(sums, [a_space(1, "m", lookups=5, ready=3)])
    assert shown(sums, []) == {"lookups": {"m": 5}, "ready": {"m": 0}}
    again = shown(sums, [a_space(2, "m", lookups=1, ready=4)])
    assert again == {"lookups": {"m": 6}, "ready": {"m": 4}}


def test_two_spaces_of_a_model_are_summed() -> None:
    spaces = [a_space(1, "m", lookups=5, ready=3), a_space(2, "m", lookups=2, ready=1)]
    assert shown(SpaceSums(), spaces) == {"lookups": {"m": 7}, "ready": {"m": 4}}


def test_a_thousand_models_that_come_and_go_make_few_series() -> None:
    sums = SpaceSums()
    for number in range(1000):
        found = shown(sums, [a_space(number, f"model-{number}", lookups=1, ready=1)])
    assert len(found["lookups"]) == 65
    assert sum(found["lookups"].values()) == 1000
    assert found["ready"][OTHER] == 1
    assert sum(found["ready"].values()) == 1


@given(
    st.lists(
        st.dictionaries(st.integers(1, 6), st.integers(0, 9), max_size=4), min_size=1, max_size=12
    )
)
def test_counters_never_fall(steps: Sequence[Mapping[int, int]]) -> None:
    """Each step names the living spaces and by how much they have counted on; ids are never given twice."""
    sums, totals = SpaceSums(), Counter[int]()
    gone: set[int] = set()
    before: dict[tuple[str, ...], float] = {}
    for step in steps:
        alive = {number: more for number, more in step.items() if number not in gone}
        gone |= totals.keys() - alive.keys()
        totals.update(alive)
        spaces = [a_space(n, f"model-{n % 2}", totals[n], ready=1) for n in alive]
        after = {
            (sample.name, *sample.labels.values()): sample.value
            for family in sums.collect(spaces)
            if family.type == "counter"
            for sample in family.samples
        }
        assert all(after[key] >= value for key, value in before.items())
        before = after
    looked = sum(value for key, value in before.items() if key[0] == "kvstow_lookups_total")
    assert looked == totals.total()


def test_every_family_of_spaces_is_either_counted_or_seen() -> None:
    names = {family.name for family in (*COUNTED, *GAUGED)}
    assert len(names) == len(COUNTED) + len(GAUGED)
    found = {family.name for family in SpaceSums().collect([a_space(1, "m", 1, 1)])}
    assert found == {family.stem for family in (*COUNTED, *GAUGED)}
