"""Keeps what the demo claims and measures, and shows it as it comes."""

from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape


@dataclass
class Report:
    """What was found so far.

    Attributes:
        console: Where a person reads along.
        claims: Each claim, and whether it held.
        figures: What was measured, by step; everything in it can be written as JSON.
    """

    console: Console
    claims: list[tuple[str, bool]] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every claim held."""
        return all(held for _, held in self.claims)

    def title(self, number: int, text: str) -> None:
        """Begin a step."""
        self.console.print(f"\n[bold cyan]{number}. {escape(text)}[/]")

    def say(self, text: str) -> None:
        """Tell something that is neither claimed nor checked."""
        self.console.print(f"  {escape(text)}", highlight=False)

    def claim(self, text: str, holds: bool) -> None:
        """Say what must be true, and whether it is."""
        self.claims.append((text, holds))
        mark = "[green]✓[/]" if holds else "[bold red]✗ NOT TRUE:[/]"
        self.console.print(f"  {mark} {escape(text)}", highlight=False)
