"""`kvstow why-miss`: which key of a prefix is missing, and why."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kvstow.client import Client
from kvstow.v1 import admin_pb2

from . import fates
from .connection import connected
from .fates import WORDS, KeyFate
from .keys import check_lengths, chosen_space, given_keys, shown_key
from .listing import NAME, NUMBER, PROSE, WORD, Listing
from .options import AsJson
from .printing import print_json, print_table
from .tables import model


def why_miss(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEYS]", help="Block keys in hexadecimal, in prefix order."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Read keys from a file, one a line; - is standard input."
        ),
    ] = None,
    space: Annotated[
        str, typer.Option(help="Id of the space, or its model.", show_default="the only one")
    ] = "",
    group: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="KV cache group.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say which key of a prefix is missing, and why.

    Asks what became last of each key: whether it was never offered, refused, evicted, dropped by a reset, or is being
    written. Counts as no lookup and changes nothing. The daemon remembers only so far back, and says how far.
    """
    asked = given_keys(keys or [], file)
    with connected() as client:
        chosen = chosen_space(client.administration.spaces(), space)
        check_lengths(asked, chosen)
        found, history_s = _explained(client, chosen, group, asked)
    if as_json:
        print_json(_row(chosen, group, asked, found, history_s))
        return
    typer.echo(_summary(chosen, group, found, history_s))
    print_table(explanation(asked, found, history_s))


def _explained(
    client: Client, space: admin_pb2.Space, group: int, keys: Sequence[bytes]
) -> tuple[list[KeyFate], float | None]:
    """What became of each key, and how far back the daemon remembers; None if since it was started."""
    most = client.server_info().limits.max_keys_per_call
    found: list[KeyFate] = []
    history_s: float | None = None
    for start in range(0, len(keys), most):
        part = keys[start : start + most]
        reply = client.administration.explain_keys(space.space_id, group, part)
        fates_of_part = zip(reply.fates, reply.ages_s, reply.generations, strict=True)
        found += [
            KeyFate(WORDS.get(fate, "unrecognized"), age_s, generation)
            for fate, age_s, generation in fates_of_part
        ]
        history_s = None if reply.complete else reply.reaches_back_s
    return found, history_s


def _leading(found: Sequence[KeyFate]) -> int:
    """How many keys a lookup would count as hits."""
    return next((at for at, key in enumerate(found) if key.fate != "ready"), len(found))


def _summary(
    space: admin_pb2.Space, group: int, found: Sequence[KeyFate], history_s: float | None
) -> str:
    hits = _leading(found)
    where = f"space {space.space_id} ({model(space.identity)}), group {group}"
    if hits == len(found):
        return f"{where}: all {hits} keys are READY"
    because = fates.reason(found[hits], history_s)
    return f"{where}: {hits} of {len(found)} keys are hits; key {hits} misses: {because}"


def _row(
    space: admin_pb2.Space,
    group: int,
    asked: Sequence[bytes],
    found: Sequence[KeyFate],
    history_s: float | None,
) -> dict[str, object]:
    return {
        "space_id": space.space_id,
        "model": space.identity.model,
        "group": group,
        "hit_count": _leading(found),
        "history_s": history_s,
        "keys": [
            {
                "key": key.hex(),
                "fate": fate.fate,
                "age_s": fate.age_s,
                "generation": fate.generation,
                "reason": fates.reason(fate, history_s),
                "advice": fates.advice(fate),
            }
            for key, fate in zip(asked, found, strict=True)
        ],
    }


def explanation(
    asked: Sequence[bytes], found: Sequence[KeyFate], history_s: float | None
) -> Listing:
    """What became of each key, and what to do."""
    listing = Listing(
        "", {"index": NUMBER, "key": NAME, "fate": WORD, "why": PROSE, "to do": PROSE}
    )
    for at, (key, fate) in enumerate(zip(asked, found, strict=True)):
        why, to_do = fates.reason(fate, history_s), fates.advice(fate)
        listing.add_row(str(at), shown_key(key), fate.fate, why, to_do)
    return listing
