"""What the two halves tell each other with each step of the engine. Plain values, to be pickled."""

from collections.abc import Mapping
from dataclasses import dataclass

from kvstow.client.standing import Ticket


@dataclass(frozen=True, slots=True)
class EndedLoad:
    """A load that has ended, whatever it has brought.

    Attributes:
        request_id: the engine's request.
        failed_blocks: engine blocks without their bytes; empty if all is well or nobody cares.
    """

    request_id: str
    failed_blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What every worker does in one step.

    Attributes:
        number: rises with each step.
        ticket: attach to this opening of the session; None if there is none.
        board: path of the board on which ended stores are marked.
        fences: stores that read blocks which this step overwrites: wait for their end first.
        ended: loads to report to the engine, each in exactly one step.
    """

    number: int
    ticket: Ticket | None
    board: str
    fences: tuple[int, ...] = ()
    ended: tuple[EndedLoad, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What the workers say of themselves.

    Attributes:
        step: the last one that they have done.
        attached: to which opening of the session each rank's memory is attached.
    """

    step: int
    attached: Mapping[int, Ticket]

    def joined(self, other: "Report") -> "Report":
        """Both."""
        return Report(min(self.step, other.step), {**self.attached, **other.attached})
