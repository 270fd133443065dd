"""What a daemon does with the ledger when it has time, as rules of the property test."""

from hypothesis.stateful import rule

from support.ledger_model import LedgerModel


class UpkeepRules(LedgerModel):
    """Sweeping and zeroing, one step at a time or until nothing is left to do."""

    @rule()
    def sweep(self) -> None:
        before = self.ledger.snapshot(now=self.now)
        self.ledger.sweep()
        after = self.ledger.snapshot(now=self.now)
        for was, now in zip(before.tables, after.tables, strict=True):
            assert now.free >= was.free
            assert now.zeroing >= was.zeroing
            room = now.free + now.zeroing + now.evictable - was.free - was.zeroing - was.evictable
            assert was.held - now.held == room >= 0

    @rule()
    def begin_zeroing(self) -> None:
        if self.bytes.zeroing is None:
            assert self.ledger.has_dirt == self.bytes.begin_zeroing()

    @rule()
    def end_zeroing(self) -> None:
        if self.bytes.zeroing is not None:
            self.bytes.end_zeroing(self._copied())

    @rule()
    def clean_up(self) -> None:
        self.bytes.clean_up(self._copied())
