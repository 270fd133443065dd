"""Settings: where they come from, and what is said when they are wrong."""

from importlib.metadata import version
from pathlib import Path

import pytest

from kvstow.server.command_line import (
    CLIENT_VARIABLES,
    ConfigError,
    load,
    misspelt,
)
from kvstow.server.config import Config

GIB = 1 << 30


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kvstowd.toml"
    path.write_text('pool_size = "2GiB"\npolicy = "arc"\nmax_keys = 5\n', encoding="utf-8")
    return path


def test_everything_has_a_default() -> None:
    config = load([])
    assert config.pool_size == GIB
    assert config.extent_bytes == 64 << 20
    assert config.listen is None
    assert not config.debug_service


def test_flags_go_before_the_environment_and_the_environment_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSTOW_POLICY", "lru")
    monkeypatch.setenv("KVSTOW_MAX_KEYS", "6")
    config = load(["--config", str(file), "--max-keys", "7"])
    assert (config.pool_size, config.policy, config.max_keys) == (2 * GIB, "lru", 7)


@pytest.mark.parametrize("variable", ["KVSTOW_CONFIG", "kvstow_config"])
def test_the_environment_may_name_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(file))
    assert load([]).policy == "arc"


@pytest.mark.parametrize(
    ("pool", "extent_bytes"),
    [("8GiB", 64 << 20), ("64MiB", 8 << 20), ("100KiB", 12288), ("16KiB", 4096)],
)
def test_a_small_pool_still_has_room_for_several_block_sizes(pool: str, extent_bytes: int) -> None:
    assert load(["--pool-size", pool]).extent_bytes == extent_bytes


def test_an_extent_size_that_is_given_is_taken_as_it_is() -> None:
    assert load(["--pool-size", "64MiB", "--extent-size", "64MiB"]).extent_bytes == 64 << 20


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        ("3Gi", 3 * GIB),
        ("3GiB", 3 * GIB),
        ("1.5 gib", 3 * GIB // 2),
        ("3GB", 3 * 10**9),
        ("3G", 3 * 10**9),
        ("3 gb", 3 * 10**9),
        ("512Mi", GIB // 2),
        ("3000000000", 3 * 10**9),
    ],
)
def test_sizes_are_written_as_people_and_kubernetes_write_them(
    written: str, size_bytes: int
) -> None:
    assert load(["--pool-size", written]).pool_size == size_bytes


def test_sizes_are_shown_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert "suchas64GiB.(default:1GiB)" in shown
    assert "(default:4MiB)" in shown


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"kvstowd {version('kvstow')}\n"


def test_a_setting_of_the_file_that_is_misspelt_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('pool-path = "/dev/shm"\nmax_session = 3\n', encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load(["--config", str(path)])
    assert sorted(str(refused.value).splitlines()) == [
        "max_session: there is no such setting; did you mean max_sessions?",
        "pool-path: there is no such setting; did you mean pool_path?",
    ]


def test_a_variable_that_is_almost_a_setting_is_found() -> None:
    assert misspelt({"KVSTOW_POOLSIZE": "64GiB", "KVSTOW_METRIC_LISTEN": "", "PATH": "/bin"}) == {
        "KVSTOW_POOLSIZE": "KVSTOW_POOL_SIZE",
        "KVSTOW_METRIC_LISTEN": "KVSTOW_METRICS_LISTEN",
    }


def test_settings_and_what_kubernetes_sets_for_services_are_not_misspelt() -> None:
    settings = [f"KVSTOW_{name.upper()}" for name in Config.model_fields]
    services = [
        f"{service}_{variable}"
        for service in ("KVSTOW", "KVSTOW_METRICS", "KVSTOW_POOL")
        for variable in (
            "PORT",
            "PORT_9478_TCP",
            "PORT_9478_TCP_ADDR",
            "PORT_9478_TCP_PORT",
            "PORT_9478_TCP_PROTO",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_METRICS",
        )
    ]
    names = [*settings, *services, *CLIENT_VARIABLES, "kvstow_pool_size"]
    assert misspelt(dict.fromkeys(names, "")) == {}


def test_all_mistakes_are_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('pool_size = "much"\nmax_keys = 0\ncolour = "red"\n', encoding="utf-8")
    monkeypatch.setenv("KVSTOW_PIECE_SIZE", "1")
    flags = ["--policy", "random", "--listen", "[::]:1", "--tls-client-ca=a", "--polcy=lru"]
    with pytest.raises(ConfigError) as refused:
        load(["--config", str(path), *flags])
    lines = str(refused.value).splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == [
        "--polcy",
        "colour",
        "listen",
        "max_keys",
        "piece_size",
        "policy",
        "pool_size",
        "tls_client_ca",
    ]
    assert "'much'" in str(refused.value)
    assert "colour: there is no such setting" in lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--listen", "0.0.0.0:1"],
            "listen: TCP needs TLS: set tls_cert and tls_key, or say insecure",
        ),
        (
            ["--listen", "0.0.0.0:1", "--tls-cert=c", "--tls-key=k"],
            "listen: whoever reaches it could do everything: set tls_client_ca or tokens",
        ),
        (["--listen", "0.0.0.0:1", "--tokens=t"], "listen: TCP needs TLS"),
        (["--tls-cert", "c"], "tls_cert: a certificate and its key go together"),
        (["--tls-client-ca", "c"], "tls_client_ca: it needs a certificate"),
        (["--metrics-tls"], "metrics_tls: it needs a certificate"),
        (["--socket-mode", "rw"], "socket_mode: a mode is three octal digits"),
        (["--socket-mode", "1777"], "socket_mode: a mode is three octal digits"),
        (["--socket-mode", "0440"], "socket_mode: a mode is three octal digits"),
        (["--memory-path", "shm"], "memory_path: the path has to be absolute"),
        (["--listen", "0.0.0.0", "--insecure"], "listen: an address is host:port"),
        (["--listen", "unix:5", "--insecure"], "listen: an address is host:port"),
        (["--listen", "unix-abstract:5", "--insecure"], "listen: an address is host:port"),
        (["--listen", "vsock:3:5", "--insecure"], "listen: an address is host:port"),
        (["--listen", "/run/x:5", "--insecure"], "listen: an address is host:port"),
        (["--listen", "::1:5", "--insecure"], "listen: an address is host:port, with brackets"),
        (["--listen="], "listen: an address is host:port"),
        (["--health-listen", "a b:5"], "health_listen: an address is host:port"),
        (
            ["--pool-size", "1MiB", "--extent-size", "2MiB"],
            "extent_size: 2MiB are more than the pool's 1MiB",
        ),
        (["--extent-size", "100"], "extent_size"),
        (["--metrics-listen", "9478"], "metrics_listen"),
        (["--max-deadline-s", "1e10"], "max_deadline_s"),
        (["--session-grace-s", "inf"], "session_grace_s"),
        (["--drain-grace-s", "1e10"], "drain_grace_s"),
        (["--metrics-listen", "127.0.0.1:65536"], "metrics_listen: there is no port 65536"),
        (["--metrics-listen", f"{'ü' * 64}:1"], "metrics_listen"),
        (["--listen", "0.0.0.0:99999", "--insecure"], "listen: there is no port 99999"),
        (
            ["--pool-size", "1,5GiB"],
            "pool_size: a size is written 64GiB, 64Gi, 64GB or as a number",
        ),
        (["--pool-size", "64Gi5"], "pool_size: a size is written"),
        (["--pool-size=-5"], "pool_size: a size is written"),
        (["--pool-size=NaN"], "pool_size: a size is written"),
        (["--pool-size=1e30"], "pool_size: a size is written"),
        ([f"--pool-size={'9' * 400}"], "pool_size: a size is written"),
        (["--pool-size", "0"], "pool_size: Input should be greater than 0, not '0'"),
        (["--pool-size", "1"], "pool_size: 1 bytes are less than the smallest extent, 4096"),
        (["--pool-size", "4095"], "pool_size: 4095 bytes are less than the smallest extent, 4096"),
        (
            ["--pool-size", "10g"],
            "pool_size: some read it as 10GiB (10737418240 bytes), some as 10GB (10000000000 bytes)",
        ),
        (["--pool-size", "64m"], "pool_size: some read it as 64MiB"),
        (["--pool-size"], "--pool-size: expected one argument"),
        (["--poolsize", "1GiB"], "--poolsize: there is no such flag; did you mean --pool-size?"),
        (["--colour=red"], "--colour: there is no such flag"),
        (["serve"], "serve: it is no flag, and none before it takes a value"),
        (["--no-pin", "true"], "true: it is no flag, and none before it takes a value"),
        (["--pin=true"], "--pin/--no-pin: it takes no value, not 'true'"),
        (["--piece-size", "0Mi"], "piece_size"),
        (["--socket="], "socket: it has to name a file"),
        (["--socket", "/run/\udcff"], "socket"),
        (["--pool-path", "/dev/shm/\udcff"], "pool_path"),
        (["--zero-freed", "a,,b"], "zero_freed: tenants are written with commas between them"),
        (["--zero-freed", ","], "zero_freed: tenants are written with commas between them"),
        (["--zero-freed", "\udcff"], "zero_freed: tenants are written"),
        (["--tls-cert", "\udcff", "--tls-key=k"], "tls_cert"),
        (["--config", "/nowhere.toml"], "config: /nowhere.toml is not a file"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(arguments)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_path_with_a_zero_byte_is_named(tmp_path: Path) -> None:
    names = ["tokens", "pool_path", "socket", "memory_path"]
    path = tmp_path / "zero.toml"
    path.write_text("".join(f'{name} = "/run/\\u0000"\n' for name in names), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load(["--config", str(path)])
    lines = [line.split(", not ")[0] for line in str(refused.value).splitlines()]
    assert sorted(lines) == sorted(f"{name}: a path has no zero bytes" for name in names)


TENANTS = ["", "a", "b", "ab"]


@pytest.mark.parametrize(
    ("written", "covered"),
    [("", []), (" a, b ", ["a", "b"]), ("ab,a*", ["ab"]), ("*", TENANTS), ("b,*", TENANTS)],
)
def test_tenants_are_named_one_by_one_or_all_at_once(
    tmp_path: Path, written: str, covered: list[str]
) -> None:
    path = tmp_path / "kvstowd.toml"
    path.write_text(f'zero_freed = "{written}"\n', encoding="utf-8")
    for arguments in (["--zero-freed", written], ["--config", str(path)]):
        found = load(arguments).zero_freed
        assert [tenant for tenant in TENANTS if found.covers(tenant)] == covered


@pytest.mark.parametrize("content", [b"pool_size: 3\n", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.toml is not TOML"):
        load(["--config", str(path)])


def test_every_setting_says_what_it_is_for() -> None:
    assert not [name for name, field in Config.model_fields.items() if not field.description]


def test_a_wrong_value_hides_no_contradiction_and_makes_none_up() -> None:
    with pytest.raises(ConfigError) as refused:
        load(["--listen", "nowhere", "--pool-size", "1MiB", "--extent-size", "2MiB"])
    lines = str(refused.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["listen", "extent_size"]
    with pytest.raises(ConfigError) as refused:
        load(["--pool-size", "much", "--extent-size", "2GiB"])
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "permitted"),
    [
        (["--insecure"], "whoever reaches it"),
        (["--tls-cert=c", "--tls-key=k", "--insecure"], "whoever reaches it, encrypted"),
        (["--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"], "who has a certificate"),
        (["--tls-cert=c", "--tls-key=k", "--tokens=t"], "who has a token"),
    ],
)
def test_tcp_is_served_to_those_who_are_known_or_to_everyone_if_that_is_said(
    flags: list[str], permitted: str
) -> None:
    assert load(["--listen", "0.0.0.0:9477", *flags]).listen == "0.0.0.0:9477"
