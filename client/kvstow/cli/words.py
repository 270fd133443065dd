"""Quantities as people read them."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Bytes."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """A span of time, in its two largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def share(part: int, whole: int) -> float | None:
    """A part of a whole; None if there is no whole."""
    return part / whole if whole else None


def percent(part: float | None) -> str:
    """A share in percent; a dash if there is none."""
    return "-" if part is None else f"{100 * part:.1f} %"


def ratio(part: int, whole: int) -> str:
    """A part of a whole in percent; a dash if there is no whole."""
    return percent(share(part, whole))
