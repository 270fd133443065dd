"""What the command line says: of defaults, and of values that are wrong."""

from pathlib import Path

import pytest

from kvstow.server.command_line import ConfigError, load


def test_help_says_defaults_as_people_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert "(default:$XDG_RUNTIME_DIR/kvstow/kvstow.sock,else/run/kvstow/kvstow.sock)" in shown
    assert "(default:lru)" in shown
    assert not [said for said in ("None", "factory", "(default:)") if said in shown]


def test_a_value_that_is_wrong_is_named_with_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kvstowd.toml"
    path.write_text('max_keys = 0\nmax_leases = 0\npolicy = "arc"\n', encoding="utf-8")
    monkeypatch.setenv("KVSTOW_COPY_THREADS", "0")
    monkeypatch.setenv("KVSTOW_MAX_LEASES", "-1")
    with pytest.raises(ConfigError) as refused:
        load(["--config", str(path), "--policy=random"])
    lines = [line.partition(", not ")[2] for line in str(refused.value).splitlines()]
    assert sorted(lines) == [
        "'-1' (environment)",
        "'0' (environment)",
        "'random' (flag)",
        "0 (file)",
    ]
