"""What the tests of the client open sessions with."""

from kvstow.client import Group, Identity, KeyScheme, Layout

SHORT_S = 0.02
"""The budget of a call that a test lets run out of it."""

BLOCK_BYTES = 256
KEY_BYTES = 4


def identity(world_size: int = 1, *more_groups: Group) -> Identity:
    """A space with one segment a block, and whatever other groups."""
    groups = [Group(segment_bytes=[BLOCK_BYTES]), *more_groups]
    return Identity(
        model="model",
        layout=Layout(dtype="int8", block_tokens=1, world_size=world_size, groups=groups),
        key_scheme=KeyScheme(hash_name="test", key_bytes=KEY_BYTES),
    )
