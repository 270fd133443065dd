"""Options of a connector: what is taken, and what a user is told."""

import pytest

from kvstow.client.engines.offload.options import Options, parse_options


def test_without_options_the_defaults_hold() -> None:
    assert parse_options({}) == Options()


def test_options_are_taken() -> None:
    options = parse_options({"target": "unix:/a", "mode": "lazy", "lookup_budget_ms": 5})
    assert options.target == "unix:/a"
    assert options.is_lazy
    assert options.budgets.lookup_s == 0.005


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"taget": "unix:/a"}, "unknown option 'taget': did you mean 'target'?"),
        ({"xyzzy": 1}, "unknown option 'xyzzy': There are: target, mode"),
        ({"mode": "sometimes"}, r"'mode' must be one of \['eager', 'lazy'\], not 'sometimes'"),
        ({"offload_prompt_only": "yes"}, "'offload_prompt_only' must be a bool, not 'yes'"),
        ({"lazy_blocks": True}, "'lazy_blocks' must be a int, not True"),
        ({"lookup_budget_ms": 0}, "above 0 ms"),
        ({"memory_path": "shm/a"}, "'memory_path' must be absolute, not 'shm/a'"),
    ],
)
def test_what_is_wrong_is_refused_in_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_options(given)
