"""vLLM's HTTP server in processes of its own, asked with token ids: the tiny models have no tokenizer."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.waiting import wait_for
from vllm_engine.books import open_books
from vllm_engine.engine import DEADLINE_S, PATIENT, SHORT, Answer, repeat_until
from vllm_engine.tiny import BLOCK_TOKENS


class HttpServer:
    """A server with the connector.

    Args:
        model: directory of the model.
        target: of the daemon.
        log: where its output goes.
    """

    def __init__(self, model: Path, target: str, log: Path) -> None:
        # Bound until the server has gone, which may bind it, too, as nobody listens here: nobody else is given the port.
        self._bound = socket.socket()
        self._bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._bound.bind(("127.0.0.1", 0))
        self._port = self._bound.getsockname()[1]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                _command(model, target, self._port),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "VLLM_SERVER_DEV_MODE": "1"},
                start_new_session=True,
            )
        try:
            wait_for(self._is_healthy, f"a healthy server, see {log}", DEADLINE_S, 0.2)
        except AssertionError:
            self.kill()
            raise AssertionError(log.read_text()[-4000:]) from None

    def ask(self, tokens: Sequence[int], generate: int = 8) -> Answer:
        """Answer a prompt."""
        sampling = {"max_tokens": generate, "temperature": 0, "ignore_eos": True}
        asked = {"token_ids": list(tokens), "sampling_params": sampling}
        reply = json.loads(self._post("/inference/v1/generate", json.dumps(asked).encode()))
        (choice,) = reply["choices"]
        cached = (reply["usage"]["prompt_tokens_details"] or {}).get("cached_tokens") or 0
        return Answer(tuple(choice["token_ids"]), cached, choice["finish_reason"])

    def reset(self, **how: bool) -> bool:
        """Reset vLLM's prefix cache, with the options of its endpoint."""
        query = "&".join(f"{name}={str(value).lower()}" for name, value in how.items())
        return bool(json.loads(self._post(f"/reset_prefix_cache?{query}"))["success"])

    def metrics(self) -> str:
        """What Prometheus would read."""
        with urllib.request.urlopen(self._url("/metrics"), timeout=DEADLINE_S) as reply:
            text: str = reply.read().decode()
        return text

    def kill(self) -> None:
        """Take it away at once, with all its processes."""
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._bound.close()

    def _post(self, path: str, body: bytes = b"") -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url(path), body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
            return reply.read()

    def _is_healthy(self) -> bool:
        assert self._process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(self._url("/health"), timeout=10):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"


@contextmanager
def http_server(model: Path, target: str, log: Path) -> Iterator[HttpServer]:
    """A server that is gone afterwards; its memory is attached."""
    with open_books(target) as books:
        others = books.attached_sessions()
        server = HttpServer(model, target, log)
        try:
            repeat_until(
                lambda: server.ask(SHORT, 1),
                lambda: books.attached_sessions() - others,
                "its memory attached",
            )
            yield server
        finally:
            server.kill()


def _command(model: Path, target: str, port: int) -> list[str]:
    connector = {
        "kv_connector": "KvstowConnector",
        "kv_connector_module_path": "kvstow.client.engines.vllm",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"target": target, "tenant": "http", **PATIENT},
    }
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--skip-tokenizer-init", "--tokens-only"),
        *("--kv-transfer-config", json.dumps(connector), "--enable-prompt-tokens-details"),
        *("--dtype", "float32", "--enforce-eager", "--block-size", str(BLOCK_TOKENS)),
        *("--max-model-len", "1024", "--num-gpu-blocks-override", "128"),
    ]
