"""Keys and spaces as people name them, and what became of a key in words."""

import io
from pathlib import Path

import pytest
import typer

from kvstow.cli import fates
from kvstow.cli.fates import FATES, KeyFate
from kvstow.cli.keys import check_lengths, chosen_space, given_keys
from kvstow.v1 import admin_pb2, identity_pb2


def space(number: int, model: str, key_bytes: int = 2) -> admin_pb2.Space:
    scheme = identity_pb2.KeyScheme(key_bytes=key_bytes)
    return admin_pb2.Space(
        space_id=number, identity=identity_pb2.Identity(model=model, key_scheme=scheme)
    )


def test_keys_come_from_arguments_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("0304\n\n 0x0506 \n")
    assert given_keys(["0102"], file) == [b"\1\2", b"\3\4", b"\5\6"]


def test_keys_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("0102\n0304\n"))
    assert given_keys([], Path("-")) == [b"\1\2", b"\3\4"]


@pytest.mark.parametrize(
    ("words", "text", "complaint"),
    [
        ([], None, "name keys"),
        ([], b"", "name keys"),
        (["0102", "xyz"], None, "key 1 is no hexadecimal number: 'xyz'"),
        (["012"], None, "key 0 is no hexadecimal number"),
        ([], b"0102\nzz\n", "line 2 of "),
        ([], b"\xff\xfe\n", "is no text"),
    ],
)
def test_what_is_no_key_is_named(
    tmp_path: Path, words: list[str], text: bytes | None, complaint: str
) -> None:
    file = None
    if text is not None:
        file = tmp_path / "keys"
        file.write_bytes(text)
    with pytest.raises(typer.BadParameter, match=complaint):
        given_keys(words, file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="No such file"):
        given_keys([], tmp_path / "none")


@pytest.mark.parametrize(("named", "number"), [("2", 2), ("llama", 3), ("7", 7)])
def test_a_space_is_named_by_id_or_model(named: str, number: int) -> None:
    spaces = [space(2, "qwen"), space(3, "llama"), space(7, "qwen")]
    assert chosen_space(spaces, named).space_id == number


def test_an_id_is_no_model_that_is_called_like_it() -> None:
    assert chosen_space([space(2, "3"), space(3, "llama")], "3").space_id == 3


def test_the_only_space_needs_no_name() -> None:
    assert chosen_space([space(5, "llama")], "").space_id == 5


@pytest.mark.parametrize(
    ("spaces", "named", "complaint"),
    [
        ([], "", "the daemon has no space"),
        ([space(2, "a"), space(3, "b")], "", r"several spaces match.*2 \(a\), 3 \(b\)"),
        ([space(2, "a"), space(3, "a")], "a", "several spaces match"),
        ([space(2, "a")], "b", r"no space is 'b'.*2 \(a\)"),
    ],
)
def test_a_space_that_cannot_be_told_is_asked_for(
    spaces: list[admin_pb2.Space], named: str, complaint: str
) -> None:
    with pytest.raises(typer.BadParameter, match=complaint):
        chosen_space(spaces, named)


def test_a_key_of_another_length_is_named() -> None:
    check_lengths([b"12", b"34"], space(2, "a"))
    with pytest.raises(typer.BadParameter, match="key 1 has 3 bytes, those of space 2 have 2"):
        check_lengths([b"12", b"345"], space(2, "a"))


def test_every_fate_that_the_daemon_tells_has_words() -> None:
    names = {name.removeprefix("KEY_FATE_").lower() for name, _ in admin_pb2.KeyFate.items()}
    assert set(FATES) == names - {"unspecified"}


@pytest.mark.parametrize("fate", FATES)
def test_only_what_is_there_needs_nothing_done(fate: str) -> None:
    found = KeyFate(fate, 61.0, 4)
    assert bool(fates.advice(found)) == (fate != "ready")
    assert "{" not in fates.reason(found, 30.0)


def test_reasons_carry_their_numbers() -> None:
    assert "1 min 1 s ago" in fates.reason(KeyFate("evicted", 61.0, 4), None)
    assert "generation 4" in fates.reason(KeyFate("reset", 61.0, 4), None)
    assert "since the daemon was started" in fates.reason(KeyFate("unknown", 0, 4), None)
    assert "in the last 30 s" in fates.reason(KeyFate("unknown", 0, 4), 30.0)


def test_a_fate_of_a_newer_daemon_is_shown_as_it_is() -> None:
    found = KeyFate("melted", 1.0, 4)
    assert fates.reason(found, None) == "melted"
    assert "version" in fates.advice(found)
