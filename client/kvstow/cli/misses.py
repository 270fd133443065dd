"""`kvstow misses`: at which keys the latest lookups ended, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from kvstow.v1 import admin_pb2

from . import fates
from .connection import connected
from .fates import WORDS, KeyFate
from .keys import chosen_space, shown_key
from .listing import NAME, NUMBER, PROSE, WORD, Listing
from .options import AsJson
from .printing import print_json, print_table
from .tables import model
from .words import duration


def misses(
    space: Annotated[
        str, typer.Option(help="Id of a space, or its model.", show_default="all of them")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many keys of a space.")] = 16,
    as_json: AsJson = False,
) -> None:
    """List the keys at which the latest lookups ended, and why these were missing.

    Of each lookup the daemon remembers the first key that was missing, and why it was missing at that time, even if it
    has been stored since. New prompts end at keys that were never offered; those that were evicted, dropped or refused
    could have been hits.
    """
    with connected() as client:
        spaces = client.administration.spaces()
        asked = [chosen_space(spaces, space)] if space else spaces
        found = [(each, client.administration.misses(each.space_id)[:limit]) for each in asked]
    if as_json:
        print_json([_row(each, miss) for each, listed in found for miss in listed])
        return
    for each, listed in found:
        if listed:
            print_table(missed_table(each, listed))
    if not any(listed for _, listed in found):
        typer.echo("No lookup has missed a key.")


def missed_table(space: admin_pb2.Space, listed: Sequence[admin_pb2.Miss]) -> RenderableType:
    """The keys of one space."""
    counts = Counter(_fate(miss).fate for miss in listed).most_common()
    summary = ", ".join(f"{count} {fate}" for fate, count in counts)
    advices = {_fate(miss).fate: fates.advice_then(_fate(miss)) for miss in listed}.items()
    listing = Listing(
        f"space {space.space_id} ({model(space.identity)}), keys at which lookups ended: {summary}",
        {
            "ago": NUMBER,
            "lookups": NUMBER,
            "hits": NUMBER,
            "group": NUMBER,
            "key": NAME,
            "fate": WORD,
            "why": PROSE,
        },
        spare=("group", "lookups"),
    )
    for miss in listed:
        fate = _fate(miss)
        listing.add_row(
            duration(miss.age_s),
            str(miss.lookup_count),
            f"{miss.hit_count} of {miss.key_count}",
            str(miss.group),
            shown_key(miss.key),
            fate.fate,
            fates.reason_then(fate),
        )
    return Group(listing, *(Text(f"to do for {fate}: {advice}") for fate, advice in advices))


def _row(space: admin_pb2.Space, miss: admin_pb2.Miss) -> dict[str, object]:
    fate = _fate(miss)
    return {
        "space_id": space.space_id,
        "model": space.identity.model,
        "group": miss.group,
        "key": miss.key.hex(),
        "age_s": miss.age_s,
        "lookup_count": miss.lookup_count,
        "hit_count": miss.hit_count,
        "key_count": miss.key_count,
        "fate": fate.fate,
        "fate_age_s": miss.fate_age_s,
        "generation": miss.generation,
        "reason": fates.reason_then(fate),
        "advice": fates.advice_then(fate),
    }


def _fate(miss: admin_pb2.Miss) -> KeyFate:
    return KeyFate(WORDS.get(miss.fate, "unrecognized"), miss.fate_age_s, miss.generation)
