"""`examples.dashboards` against something that answers as Prometheus does."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from examples.dashboards import main


@contextmanager
def prometheus(said: Callable[[str], str]) -> Iterator[str]:
    """The address of a server that gives each expression one series, with the value that is said of it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (expression,) = parse_qs(urlsplit(self.path).query)["query"]
            value = said(expression)
            result = [{"metric": {"method": "Lookup"}, "value": [0, value]}] if value else []
            self.send_response(200 if value != "refused" else 400)
            self.end_headers()
            answer = {"error": "no such thing", "data": {"result": result}}
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: Callable[[str], str],
) -> tuple[int, str]:
    """Exit code and output."""
    with prometheus(said) as url:
        monkeypatch.setattr("sys.argv", ["dashboards", "--url", url])
        code = main()
    return code, capsys.readouterr().out


def test_every_query_is_asked_without_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def say(expression: str) -> str:
        asked.append(expression)
        return "0.5"

    code, text = shown(monkeypatch, capsys, say)
    assert code == 0
    assert "50.0%" in text
    assert len(asked) > 50
    assert "$" not in "".join(asked)


def test_what_did_not_happen_is_no_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quantile of nothing is not a number."""
    code, text = shown(monkeypatch, capsys, lambda expression: "NaN")
    assert code == 1
    assert "nan" not in text.lower()
    assert "\n0 of " in text


def test_a_query_that_is_refused_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = shown(monkeypatch, capsys, lambda expression: "refused")
    assert code == 1
    assert "refused: no such thing" in text


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["dashboards", "--url", "http://127.0.0.1:1"])
    assert main() == 2
