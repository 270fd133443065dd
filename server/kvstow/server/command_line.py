"""Where settings are read from: the command line before the environment, the environment before a TOML file.

Decided here: how mistakes are told (all at once, one a line, with the nearest name that exists), and how the settings in
force are shown. Not decided here: what settings there are (`config`). Called by the main thread.
"""

import argparse
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import CliApp, CliSettingsSource, SettingsError

from .config import PREFIX, Config
from .device.base import DeviceError
from .device.pool import check_capacity, check_directory
from .mistakes import CONTRADICTION, nearest_name
from .sizes import Bytes
from .values import Setting

CHECK_CONFIG = "--check-config"
CLIENT_VARIABLES = frozenset(
    f"{PREFIX}{name}" for name in ("TARGET", "CA_FILE", "CERT_FILE", "KEY_FILE", "TOKEN_FILE")
)
"""What has the prefix and is no setting of the daemon."""

_BARE = frozenset(
    name
    for name, field in Config.model_fields.items()
    if field.annotation in (bool, int, float, int | None)
)
"""Settings that a file has without quotation marks."""


_DEFAULTS = {
    " (default: None)": "",
    " (default: )": "",
    "(default factory: default_socket)": "(default: $XDG_RUNTIME_DIR/kvstow/kvstow.sock, else /run/kvstow/kvstow.sock)",
}
"""What the library says of defaults, and what is said instead."""


class ConfigError(Exception):
    """The settings cannot be used; the message names every one that is wrong, one a line."""


class _Help(argparse.HelpFormatter):
    """Says no default where there is none, and of a default that is found what it is."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        said = action.help or ""
        for written, meant in _DEFAULTS.items():
            said = said.replace(written, meant)
        return said


class _Parser(argparse.ArgumentParser):
    """Keeps what it does not know, so that it is reported together with everything else that is wrong."""

    unknown: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        said = message.replace("ignored explicit argument", "it takes no value, not")
        raise ConfigError(said.removeprefix("argument ")) from None


def load(
    arguments: Sequence[str], examine: Callable[[Config], Iterable[str]] = lambda _: ()
) -> Config:
    """Read the settings.

    Args:
        arguments: the command line without the program's name. `--help` and `--version` end the process, as usual; with
            `--check-config` the pool has to be one that this machine could give, though perhaps not now.
        examine: says what else is wrong, of settings that can be read.

    Raises:
        ConfigError: something is wrong; names all of it.
    """
    path = _file_named_by(arguments)
    parser = _parser()
    try:
        if path is not None and not path.is_file():
            raise ConfigError(f"config: {path} is not a file")
        source = CliSettingsSource[_Parser](Config, root_parser=parser, parse_args_method=_parse)
        config = CliApp.run(Config, _given(arguments), cli_settings_source=source, config=path)
    except ValidationError as error:
        source_of = _sources(arguments, os.environ, path)
        mistakes = [_line(mistake, source_of) for mistake in error.errors()]
        raise ConfigError("\n".join([*_unknown_flags(parser.unknown), *mistakes])) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config: {path} is not TOML: {error}") from None
    except (OSError, SettingsError) as error:
        raise ConfigError(f"config: {error}") from None
    mistakes = [*_unknown_flags(parser.unknown), *examine(config)]
    if CHECK_CONFIG in arguments:
        mistakes += _capacity(config)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return config


def effective(
    config: Config, arguments: Sequence[str], environment: Mapping[str, str]
) -> list[Setting]:
    """Every setting as it is in force, and where it comes from. None of them is a secret: those are in files.

    Args:
        config: what `load` read from `arguments` and `environment`.
    """
    source_of = _sources(arguments, environment, config.config)
    values = {**dict(config), "extent_size": Bytes(config.extent_bytes)}
    return [Setting(name, _shown(values[name]), source_of(name)) for name in Config.model_fields]


def as_toml(settings: Sequence[Setting]) -> str:
    """The settings as a file that may be given as `config`; those that are not set are comments."""
    lines = []
    for name, value, source in settings:
        written = value if name in _BARE else _quoted(value)
        absent = not value and source == "default"
        lines.append(f"# {name} is not set" if absent else f"{name} = {written}  # {source}")
    return "\n".join(lines)


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that no setting has the name of, each with the one that was probably meant.

    A variable that resembles none is left out: Kubernetes sets many for a Service that is named kvstow.
    """
    found = {}
    for name in environment:
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in CLIENT_VARIABLES:
            nearest = _nearest(upper.removeprefix(PREFIX))
            if nearest is not None and upper != f"{PREFIX}{nearest.upper()}":
                found[name] = f"{PREFIX}{nearest.upper()}"
    return found


def _nearest(name: str) -> str | None:
    """The setting that a name is, or is a slip of the pen for."""
    return nearest_name(name.lower().replace("-", "_"), Config.model_fields)


def _parser() -> _Parser:
    """What the command line takes besides the settings."""
    parser = _Parser(
        "kvstowd", description=Config.__doc__, allow_abbrev=False, formatter_class=_Help
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"kvstowd {version('kvstow')}",
        help="show the version and exit",
    )
    parser.add_argument(
        CHECK_CONFIG,
        action="help",
        help="say what is wrong with the settings, or print those in force, and exit",
    )
    return parser


def _given(arguments: Sequence[str]) -> list[str]:
    """The flags that are settings. A negative number is joined to its flag, or it would be taken for another flag."""
    given: list[str] = []
    for argument in arguments:
        if re.match(r"-\d", argument) and given and re.fullmatch(r"--[\w-]+", given[-1]):
            given[-1] += f"={argument}"
        elif argument != CHECK_CONFIG:
            given.append(argument)
    return given


def _capacity(config: Config) -> Iterator[str]:
    setting = "pool_path"
    try:
        check_directory(config.pool_path)
        setting = "pool_size"
        check_capacity(config.pool_size, config.pool_path)
    except DeviceError as error:
        yield f"{setting}: {error}"
    except OSError as error:
        yield f"pool_path: {error.strerror}: {config.pool_path}"


def _parse(parser: _Parser, arguments: Sequence[str]) -> argparse.Namespace:
    found, parser.unknown = parser.parse_known_args(arguments)
    return found


def _unknown_flags(unknown: Sequence[str]) -> list[str]:
    """One line for each flag that there is not; what stands behind one may be its value."""
    flags = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
    if not flags:
        return [f"{word}: it is no flag, and none before it takes a value" for word in unknown]
    lines = []
    for flag in flags:
        nearest = _nearest(flag.lstrip("-"))
        hint = "" if nearest is None else f"; did you mean --{nearest.replace('_', '-')}?"
        lines.append(f"{flag}: there is no such flag{hint}")
    return lines


def _file_named_by(arguments: Sequence[str]) -> Path | None:
    """The file must be known before the sources are read that may name it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", type=Path)
    try:
        found, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        return None  # the full parser says what is wrong
    variables = {name.upper(): value for name, value in os.environ.items()}
    named = found.config or variables.get(f"{PREFIX}CONFIG")
    return Path(named) if named else None


def _line(mistake: ErrorDetails, source_of: Callable[[str], str]) -> str:
    """One mistake, with where the value comes from; of settings that contradict each other the one to change first."""
    where = str(mistake["loc"][0])
    if mistake["type"] == "extra_forbidden":
        nearest = _nearest(where)
        hint = "" if nearest is None else f"; did you mean {nearest}?"
        return f"{where}: there is no such setting{hint}"
    what = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == CONTRADICTION:
        return f"{where}: {what}"
    return f"{where}: {what}, not {mistake['input']!r} ({source_of(where)})"


def _shown(value: object) -> str:
    """As a flag would give it, to the byte."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case Bytes():
            return value.exact()
    return str(value)


def _sources(
    arguments: Sequence[str], environment: Mapping[str, str], path: Path | None
) -> Callable[[str], str]:
    """What says of a setting where its value comes from."""
    flags = {
        argument.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        for argument in arguments
        if argument.startswith("--")
    }
    variables = {
        name.upper().removeprefix(PREFIX).lower()
        for name in environment
        if name.upper().startswith(PREFIX)
    }
    file = {} if path is None else tomllib.loads(path.read_text("utf-8"))
    places: Mapping[str, Collection[str]] = {
        "flag": flags,
        "environment": variables,
        "file": file,
    }
    return lambda name: next((place for place in places if name in places[place]), "default")


def _quoted(text: str) -> str:
    """A string as both JSON and TOML write it; they differ in one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
