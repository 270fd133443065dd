"""What is remembered of evicted blocks, against an ordered dictionary."""

import gc
from collections import OrderedDict
from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from kvstow.server.core.ghosts import READ_AHEAD, Ghosts

IDENTITIES = range(-6, 7)


def in_order(ghosts: Ghosts) -> list[int]:
    """What is remembered, in the order in which it is forgotten."""
    ghosts, order = deepcopy(ghosts), list[int]()
    left = {each for each in IDENTITIES if ghosts.knows_any([each])}
    while left:
        ghosts.trim(len(left) - 1)
        still = {each for each in left if ghosts.knows_any([each])}
        order += left - still
        left = still
    return order


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from([0, 1, 3, READ_AHEAD]))
def test_random_histories(data: st.DataObject, read_ahead: int) -> None:
    ghosts, model = Ghosts(read_ahead), OrderedDict[int, None]()
    some = st.lists(st.sampled_from(IDENTITIES), max_size=6)
    for _ in range(data.draw(st.integers(1, 20))):
        added, coming_back = data.draw(some), data.draw(some)
        ghosts.add(added)
        model.update(dict.fromkeys(added))
        assert ghosts.knows_any(coming_back) is not model.keys().isdisjoint(coming_back)
        for each in coming_back:
            assert ghosts.leave(each) is (each in model)
            model.pop(each, None)
        limit = data.draw(st.integers(0, 9))
        ghosts.trim(limit)
        while len(model) > limit:
            model.popitem(last=False)
        assert len(ghosts) == len(model)
        assert in_order(ghosts) == list(model)


def test_the_garbage_collector_does_not_walk_them() -> None:
    ghosts = Ghosts()
    ghosts.add(range(2 * READ_AHEAD))
    ghosts.trim(READ_AHEAD)
    gc.collect()
    assert ghosts.knows_any([READ_AHEAD])
    assert not any(gc.is_tracked(each) for each in gc.get_referents(ghosts) if each is not Ghosts)
