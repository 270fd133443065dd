"""Every refusal has a canonical code, and travels as a standard google.rpc.Status."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.core.errors import Refusal
from kvstow.server.rpc.status import CODES, DETAILS_KEY, DOMAIN, ERROR_INFO_URL, RefusalStatus
from kvstow.v1 import errors_pb2

ROOT = Path(__file__).parents[2]
PROTOS = sorted((ROOT / "proto/kvstow/v1").glob("*.proto"))
REASON = re.compile(r"//\s+([A-Z_]+) / ([A-Z_]+(?:, [A-Z_]+)*)\b")


def all_refusals(base: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    """Those of the daemon; a test may have made one of its own."""
    for refusal in base.__subclasses__():
        if refusal.__module__.startswith("kvstow."):
            yield refusal
        yield from all_refusals(refusal)


def test_the_table_has_every_refusal_and_nothing_else() -> None:
    assert set(CODES) == set(all_refusals())


def test_reasons_are_unique_upper_case_names() -> None:
    reasons = [refusal.reason for refusal in CODES]
    assert len(set(reasons)) == len(reasons)
    assert all(re.fullmatch(r"[A-Z][A-Z_]*[A-Z]", reason) for reason in reasons)


def test_the_page_for_readers_has_the_same_table() -> None:
    page = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    table = page.split("| reason | code | when | what to do |\n|---|---|---|---|\n")[1]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert rows == [
        f"| `{refusal.reason}` | `{code.name}` | {' '.join(str(inspect.getdoc(refusal)).split())}"
        f" | {refusal.next_step} |"
        for refusal, code in CODES.items()
    ]


@pytest.mark.parametrize("proto", PROTOS, ids=lambda path: str(path.name))
def test_the_proto_pairs_reasons_with_their_codes(proto: Path) -> None:
    codes = {refusal.reason: code.name for refusal, code in CODES.items()}
    for code, reasons in REASON.findall(proto.read_text(encoding="utf-8")):
        for reason in reasons.split(", "):
            assert codes[reason] == code


def test_the_proto_documents_every_reason() -> None:
    documented = {
        reason
        for proto in PROTOS
        for _, reasons in REASON.findall(proto.read_text(encoding="utf-8"))
        for reason in reasons.split(", ")
    }
    assert documented == {refusal.reason for refusal in CODES}


@pytest.mark.parametrize("refusal", CODES, ids=lambda refusal: str(refusal.reason))
def test_a_refusal_travels_whole(refusal: type[Refusal]) -> None:
    sent = RefusalStatus(refusal("what happened", rank=3, ranks=[1, 2]), ("key", "value"))

    assert sent.code is CODES[refusal]
    assert sent.details == "what happened"
    metadata = dict(sent.trailing_metadata)
    assert metadata["key"] == "value"
    details = metadata[DETAILS_KEY]
    assert isinstance(details, bytes)
    status = errors_pb2.Status.FromString(details)
    assert (status.code, status.message) == (sent.code.value[0], "what happened")
    (detail,) = status.details
    assert detail.type_url == ERROR_INFO_URL
    info = errors_pb2.ErrorInfo.FromString(detail.value)
    assert (info.reason, info.domain) == (refusal.reason, DOMAIN)
    assert dict(info.metadata) == {"rank": "3", "ranks": "[1, 2]", "next_step": refusal.next_step}


@given(st.text(max_size=5000))
def test_a_quoted_text_never_outgrows_the_trailers(quoted: str) -> None:
    refusal = next(iter(CODES))(f"bad: {quoted}", field=quoted)
    sent = RefusalStatus(refusal)
    assert sent.details.isascii()
    assert len(sent.details) + len(dict(sent.trailing_metadata)[DETAILS_KEY]) < 4000


def test_the_codes_are_those_of_google_rpc() -> None:
    """`Status.code` is a number; gRPC's names map to the numbers every library knows."""
    assert grpc.StatusCode.UNAVAILABLE.value[0] == 14
    assert grpc.StatusCode.FAILED_PRECONDITION.value[0] == 9
