"""Requests that must not read the cache, among others that do."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvstow.client import Client
from support.client_engine import PATIENT, ClientEngine, keys
from support.kvstowd import Kvstowd
from support.waiting import DEADLINE_S, wait_for


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    requests=st.lists(
        st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(1, 8)),
        min_size=1,
        max_size=12,
    )
)
def test_requests_that_do_not_read_look_up_nothing_hold_nothing_and_store(
    daemon: Kvstowd, engine: ClientEngine, requests: list[tuple[str, bool, int]]
) -> None:
    """What a request that opted out may move, and what not, whatever the others did before it."""
    session = engine.session
    with Client(daemon.target, PATIENT) as client:
        session.reset()
        for request, skips, count in requests:
            before = client.administration.spaces()[0].counters
            hits = session.lookup(
                request, keys(range(count)), skip_reading=skips, budget_s=DEADLINE_S
            )
            after = client.administration.spaces()[0].counters
            if skips:
                assert hits.count == hits.lease_id == 0
                assert before == after
                wait_for(
                    lambda name=request: (
                        name
                        not in {  # type: ignore[misc]
                            lease.request for lease in client.administration.leases().leases
                        }
                    ),
                    "the request to hold nothing",
                )
            else:
                assert after.lookups == before.lookups + 1
            stored = session.store(keys(range(count)), range(count), hits.generation)
            assert stored.wait(DEADLINE_S)
            assert set(stored.statuses) <= {"A", "S"}
        session.release(*"abc")
