"""Resets, as rules of the property test: what they answer, and what engines hear of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from core.rare_rules import RareRules, any_space
from kvstow.server.core.types import ResetResult, SpaceId, TransferKind


class ResetRules(RareRules):
    """A space is emptied, or all of them in one step."""

    @any_space
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        space = data.draw(st.sampled_from(sorted(self.generation)))
        self._reset([space], lambda: {space: self.ledger.reset(space, now=self.now)})

    @any_space
    @rule(seldom=st.integers(0, 2))
    def reset_all(self, seldom: int) -> None:
        if not seldom:  # what comes too often leaves nothing to other rules
            self._reset(sorted(self.generation), lambda: self.ledger.reset_all(now=self.now))

    @invariant()
    def every_report_once_and_in_order(self) -> None:
        """Every reset drains once as well, and when the last copy from before it has ended."""
        super().every_report_once_and_in_order()
        for reader in self.readers.values():
            oldest = min(
                (each.generation for each in self.flying.values() if each.space == reader.space),
                default=self.generation[reader.space],
            )
            for generation in reader.raised:
                assert reader.drained[generation] == (generation <= oldest)

    def _reset(
        self, spaces: Sequence[SpaceId], call: Callable[[], Mapping[SpaceId, ResetResult]]
    ) -> None:
        known = {found.id for found in self.ledger.snapshot(now=self.now).spaces}
        assert known == self.generation.keys()
        ready = Counter(space for space, _ in self.stored)
        queued = Counter(
            flight.space
            for flight in self.flying.values()
            if not flight.abandoned and not flight.running
        )
        results = call()
        assert sorted(results) == sorted(spaces)
        for space, result in results.items():
            assert result.dropped_count == ready[space]
            assert result.ended_count == queued[space]
            self._raise(space, result)

    def _raise(self, space: SpaceId, result: ResetResult) -> None:
        """The space has its next generation, and the answer tells the truth about what is left of the others."""
        assert result.generation == self.generation[space] + 1
        self.generation[space] = result.generation
        self._lose(space)
        left = Counter(
            flight.plan.kind for flight in self.flying.values() if flight.space == space
        )
        assert result.abandoned_stores == left[TransferKind.STORE]
        assert result.abandoned_loads == left[TransferKind.LOAD]
        for reader in self.readers.values():
            if reader.space == space:
                reader.resets[result.generation] += 1
                reader.raised.append(result.generation)
