"""What the steps of the demo share: the daemon, the engines, what was asked and what was found."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from examples.demo.daemon import DaemonProcess
from examples.demo.engines import Answer, EngineProcess, Question
from examples.demo.report import Report

BLOCK_TOKENS = 16
"""As in `examples.engine.prefix`, which is not imported here: torch would come with it."""

_DOCUMENTS = Path(__file__).parent.parent / "documents"
_DECLARATION = (_DOCUMENTS / "declaration-of-independence.txt").read_text()
_ADDRESS = (_DOCUMENTS / "gettysburg-address.txt").read_text()

INDEPENDENCE = Question(
    _DECLARATION, "From which country do the colonies declare independence?", 24
)
PLEDGE = Question(_DECLARATION, "What do the signers pledge to each other?", 32)
AUTHOR = Question(_ADDRESS, "Who is the author of this text?", 24)
IN_FLIGHT = Question(
    "Paris is the capital of France.", "What is the capital of France?", 8, salt="in flight"
)


@dataclass
class Stage:
    """What the steps work with.

    Attributes:
        report: Where claims and figures go.
        daemon: Running and ready.
        model: Which the engines run.
        cleanup: Ends whatever is still running.
        engines: Those that live, by name.
        memories: Files of all engines that ever were.
        answers: Who was asked what and answered what, in order.
    """

    report: Report
    daemon: DaemonProcess
    model: str
    cleanup: ExitStack
    engines: dict[str, EngineProcess] = field(default_factory=dict)
    memories: list[Path] = field(default_factory=list)
    answers: list[tuple[str, Question, Answer]] = field(default_factory=list)

    def start_engine(self, name: str) -> EngineProcess:
        """Start an engine and wait until it takes questions."""
        engine = EngineProcess(name, self.model, self.daemon.target)
        self.cleanup.callback(engine.close)
        with self.bar(f"starting {name}") as advance:
            engine.wait_ready(advance)
        self.cleanup.callback(engine.memory.unlink, missing_ok=True)  # a killed one leaves it
        self.engines[name] = engine
        self.memories.append(engine.memory)
        return engine

    def ask(self, engine: EngineProcess, question: Question) -> Answer:
        """Ask one engine, and tell what it answered."""
        engine.begin_answer(question)
        return self.finish(engine, question)

    def finish(self, engine: EngineProcess, question: Question) -> Answer:
        """Wait for an answer that was asked for, and tell it."""
        with self.bar(f"{engine.name} reads") as advance:
            answer = engine.finish_answer(advance)
        self.answers.append((engine.name, question, answer))
        self.report.say(f"{engine.name} was asked: {question.text}")
        self.report.say(f"{engine.name} answers:   {shown(answer.text)}")
        self.report.say(
            f"first token after {answer.first_token_s:.2f} s; of {answer.prompt_tokens} prompt "
            f"tokens {answer.external_tokens} came from kvstow, "
            f"{answer.local_tokens} from the engine itself"
        )
        return answer

    @contextmanager
    def bar(self, text: str) -> Iterator[Callable[[int, int], None]]:
        """A progress bar that goes when its work is done; nothing where no person watches."""
        console = self.report.console
        columns = (TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as bars:
            task = bars.add_task(text, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)


def shown(text: str) -> str:
    """An answer on one line; the tiny model's is no text that a terminal should be given."""
    return "".join(letter if letter.isprintable() else "·" for letter in text).strip()
