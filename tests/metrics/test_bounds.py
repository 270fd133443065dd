"""Series stay few, and counters keep what was counted, whatever clients call themselves and however spaces come and go."""

from collections.abc import Mapping

from core.engines import Engine, identity, make_ledger
from kvstow.server.core.ledger import Ledger
from kvstow.server.metrics.labels import OTHER, BoundedLabels, shown
from kvstow.server.metrics.spaces import COUNTED, GAUGED, by_account


def serve(ledger: Ledger, model: str = "m", weights: str = "1") -> None:
    """An engine stores two blocks if there is room, looks one up, and leaves."""
    engine = Engine(ledger, identity(model, weights=weights))
    engine.store([1, 2])
    engine.lookup([1])
    engine.end()


def drop_all(ledger: Ledger) -> None:
    """All spaces go."""
    for space in ledger.space_ids():
        ledger.drop_space(space, now=0.0)


def seen(ledger: Ledger) -> Mapping[str, Mapping[str, float]]:
    """Lookups and READY blocks by model."""
    found: dict[str, dict[str, float]] = {"lookups": {}, "ready": {}}
    for family in by_account(ledger.snapshot(now=0.0)):
        for sample in family.samples:
            if sample.name == "kvstow_lookups_total":
                found["lookups"][sample.labels["model"]] = sample.value
            if sample.labels.get("state") == "ready":
                found["ready"][sample.labels["model"]] = sample.value
    return found


def test_the_first_values_get_labels_of_their_own_and_later_ones_share_one() -> None:
    labels = BoundedLabels(2)
    assert [labels.of(name) for name in "xyzx"] == ["x", "y", OTHER, "x"]
    assert labels.all() == ["x", "y"]


def test_a_long_name_is_cut_and_those_that_look_the_same_then_are_summed() -> None:
    name, ledger = "x" * 10_000, make_ledger(8)
    for model in (name, name + "y"):
        serve(ledger, model)
    assert len(shown(name)) == 120
    assert seen(ledger) == {"lookups": {shown(name): 2}, "ready": {shown(name): 4}}


def test_a_space_that_is_gone_leaves_its_counts_and_no_blocks() -> None:
    ledger = make_ledger(8)
    serve(ledger)
    drop_all(ledger)
    assert seen(ledger) == {"lookups": {"m": 1}, "ready": {"m": 0}}
    serve(ledger)
    assert seen(ledger) == {"lookups": {"m": 2}, "ready": {"m": 2}}


def test_two_spaces_of_a_model_are_summed() -> None:
    ledger = make_ledger(8)
    for weights in "12":
        serve(ledger, weights=weights)
    assert seen(ledger) == {"lookups": {"m": 2}, "ready": {"m": 4}}


def test_a_hundred_models_that_come_and_go_make_few_series() -> None:
    ledger = make_ledger(8)
    for number in range(100):
        drop_all(ledger)
        serve(ledger, f"model-{number}")
    found = seen(ledger)
    assert len(found["lookups"]) == len(found["ready"]) == 65
    assert found["lookups"][OTHER] == 100 - 64
    assert sum(found["lookups"].values()) == 100
    assert found["ready"][OTHER] == sum(found["ready"].values()) == 2


def test_every_family_of_spaces_is_either_counted_or_seen() -> None:
    ledger = make_ledger(8)
    serve(ledger)
    names = {family.name for family in (*COUNTED, *GAUGED)}
    assert len(names) == len(COUNTED) + len(GAUGED)
    found = {family.name: family for family in by_account(ledger.snapshot(now=0.0))}
    assert found.keys() == {family.stem for family in (*COUNTED, *GAUGED)}
    assert all(family.samples for family in found.values())
