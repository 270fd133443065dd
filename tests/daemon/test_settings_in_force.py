"""The settings in force, as the daemon shows them and as docs/configuration.md describes them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kvstow.server.command_line import CHECK_CONFIG, as_toml, effective, load
from kvstow.server.config import Config

ROOT = Path(__file__).resolve().parents[2]


def test_the_settings_in_force_are_shown_with_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kvstowd.toml"
    file.write_text('pool_size = "2GiB"\nmax_keys = 5\n', encoding="utf-8")
    monkeypatch.setenv("KVSTOW_MAX_KEYS", "6")
    arguments = ["--config", str(file), "--socket-mode", "660", "--insecure", "--piece-size=4097"]
    config = load(arguments)
    variables = {"KVSTOW_MAX_KEYS": "6", "LISTEN": "of another program"}
    shown = {
        name: (value, source) for name, value, source in effective(config, arguments, variables)
    }
    assert list(shown) == list(Config.model_fields)
    assert shown["pool_size"] == ("2GiB", "file")
    assert shown["max_keys"] == ("6", "environment")
    assert shown["socket_mode"] == ("0660", "flag")
    assert shown["insecure"] == ("true", "flag")
    assert shown["piece_size"] == ("4097", "flag")
    assert shown["extent_size"] == ("64MiB", "default")
    assert shown["listen"] == ("", "default")


def test_the_settings_in_force_can_be_read_back(tmp_path: Path) -> None:
    arguments = [
        "--metrics-listen=",
        "--socket",
        "/run/a \"b\" 'c'\x7f.sock",
        "--socket-owner=1000",
        "--pool-path=5",
        "--tls-cert=true",
        "--tls-key=0.5",
        "--max-lease-s=1e8",
        "--session-grace-s=1e-5",
        "--pool-size=3000000000",
        "--no-debug-service",
    ]
    config = load(arguments)
    settings = effective(config, arguments, {})
    path = tmp_path / "again.toml"
    path.write_text(as_toml(settings), encoding="utf-8")
    again = load(["--config", str(path)])
    derived = {"config", "extent_size"}
    assert again.model_dump(exclude=derived) == config.model_dump(exclude=derived)
    assert tomllib.loads(path.read_text("utf-8"))["metrics_listen"] == ""


def test_the_flag_that_checks_is_no_setting() -> None:
    assert load([CHECK_CONFIG, "--max-keys", "5"]).max_keys == 5


def test_the_documentation_has_every_setting_as_the_code_has_it() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert not [name for name in Config.model_fields if f"| `{name}` |" not in page]
    command = [sys.executable, str(ROOT / "scripts" / "settings_page.py"), "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_a_page_that_is_not_fresh_is_noticed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (tmp_path / "docs").mkdir()
    copy = tmp_path / "docs" / "configuration.md"
    copy.write_text(page.replace("1GiB", "2GiB"), encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "settings_page.py")]
    checked = subprocess.run(
        [*command, "--check"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert checked.returncode == 1
    assert "run 'make settings-page'" in checked.stdout
    subprocess.run(command, cwd=tmp_path, check=True)
    assert copy.read_text(encoding="utf-8") == page
