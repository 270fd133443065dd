"""What holds for all tests."""

from contextlib import suppress

with suppress(ModuleNotFoundError):  # tests in vLLM's environment need none
    from hypothesis import HealthCheck, settings

    # How long an example takes, or is made, says how busy the machine is, and nothing of the code.
    settings.register_profile(
        "kvstow", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("kvstow")
