"""Finds everything that is wrong with a model's values at once: single values, and values that contradict each other.

Pydantic alone looks for contradictions only where every value is right by itself. Pure; anybody may call it.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

CONTRADICTION = "contradiction"
"""The type of such a mistake."""

Contradiction: TypeAlias = tuple[tuple[str, ...], str]
"""Fields that do not go together, the one to change first, and what to do."""

_CLOSE = 0.8
"""How much alike names are of which one is a slip: what Kubernetes makes of a Service's name is less like a setting."""

ModelT = TypeVar("ModelT")


def nearest_name(written: str, names: Iterable[str]) -> str | None:
    """The name that what is written there is, or is a slip of the pen for."""
    return next(iter(get_close_matches(written, list(names), 1, _CLOSE)), None)


def validated(
    values: Mapping[str, Any],
    handler: Callable[[Mapping[str, Any]], ModelT],
    contradictions: Callable[[ModelT], Iterable[Contradiction]],
) -> ModelT:
    """Make the model; the body of a validator in wrap mode. Defaults stand in for what is wrong by itself.

    Raises:
        ValidationError: names every mistake.
    """
    wrong: list[InitErrorDetails] = []
    try:
        model = handler(values)
    except ValidationError as error:
        wrong = [_again(mistake) for mistake in error.errors()]
        named = {mistake["loc"][0] for mistake in wrong}
        model = handler({name: values[name] for name in values if name not in named})
    named = {mistake["loc"][0] for mistake in wrong}
    wrong += [
        {"type": _mistake(CONTRADICTION, why), "loc": names, "input": None}
        for names, why in contradictions(model)
        if not named & set(names)
    ]
    if wrong:
        raise ValidationError.from_exception_data(type(model).__name__, wrong)
    return model


def _again(found: ErrorDetails) -> InitErrorDetails:
    """A mistake that was found, in the form in which it is raised together with others."""
    return {
        "type": _mistake(found["type"], found["msg"]),
        "loc": found["loc"],
        "input": found["input"],
    }


def _mistake(kind: str, why: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{why}", {"why": why})
