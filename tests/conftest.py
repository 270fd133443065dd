"""What holds for all tests."""

from contextlib import suppress

with suppress(ModuleNotFoundError):  # tests in vLLM's environment need none
    from hypothesis import settings

    # How long an example takes says how busy the machine is, and nothing of the code.
    settings.register_profile("kvstow", deadline=None)
    settings.load_profile("kvstow")
