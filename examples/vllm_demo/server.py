"""vLLM's server as a process that can be killed, and what it says over HTTP."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from examples.demo.daemon import DaemonBroken

START_S = 600.0
ANSWER_S = 600.0
STOP_S = 60.0
_EXTERNAL_HITS = "vllm:external_prefix_cache_hits_total"
_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True)
class Answer:
    """What a question brought.

    Attributes:
        text: The answer.
        first_token_s: From the question to the first piece of text.
        prompt_tokens: Length of the prompt.
        cached_tokens: Those of them that were not computed.
        external_tokens: Those of the cached ones that came from kvstow.
    """

    text: str
    first_token_s: float
    prompt_tokens: int
    cached_tokens: int
    external_tokens: int


class Server:
    """A server with the connector.

    Args:
        model: Directory of the model.
        target: Of the daemon.
        log: Where its output goes.
    """

    def __init__(self, model: Path, target: str, log: Path) -> None:
        # Bound until the server has gone, which may bind it, too, as nobody listens here: nobody else is given the port.
        self._bound = socket.socket()
        self._bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._bound.bind(("127.0.0.1", 0))
        self._port = self._bound.getsockname()[1]
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                _command(model, target, self._port),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_SETTINGS},
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until it takes questions.

        Raises:
            DaemonBroken: It ended, or takes too long.
        """
        until = time.monotonic() + START_S
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > until:
                raise DaemonBroken(f"vllm serve did not start:\n{self._log.read_text()[-4000:]}")
            time.sleep(0.2)

    def ask(self, document: str, question: str, token_count: int) -> Answer:
        """Put a question about a document."""
        before = self._external_tokens()
        asked = {
            "model": "demo",
            "messages": [{"role": "user", "content": f"{document}\n\n{question}"}],
            "max_tokens": token_count,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        begun, first_s = time.monotonic(), 0.0
        text = ""
        usage: dict[str, Any] = {}
        for event in self._events("/v1/chat/completions", asked):
            piece = "".join(each["delta"].get("content") or "" for each in event["choices"])
            if piece and not text:
                first_s = time.monotonic() - begun
            text += piece
            usage = event.get("usage") or usage
        details = usage.get("prompt_tokens_details") or {}
        return Answer(
            text=text,
            first_token_s=first_s,
            prompt_tokens=usage["prompt_tokens"],
            cached_tokens=details.get("cached_tokens") or 0,
            external_tokens=int(self._external_tokens() - before),
        )

    def kill(self) -> None:
        """Take it away at once, with all its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._bound.close()

    def stop(self) -> None:
        """Let it end in its own way, which gives its shared memory back."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self.kill()

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self._url("/health"), timeout=10):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def _external_tokens(self) -> float:
        with urllib.request.urlopen(self._url("/metrics"), timeout=60) as reply:
            families = text_string_to_metric_families(reply.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == _EXTERNAL_HITS)

    def _events(self, path: str, body: dict[str, object]) -> Iterator[dict[str, Any]]:
        request = urllib.request.Request(
            self._url(path), json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S) as reply:
            for line in reply:
                name, _, data = line.decode().strip().partition(": ")
                if name == "data" and data != "[DONE]":
                    yield json.loads(data)

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"


def _command(model: Path, target: str, port: int) -> list[str]:
    connector = {
        "kv_connector": "KvstowConnector",
        "kv_connector_module_path": "kvstow.client.engines.vllm",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"target": target},
    }
    return [
        # What `vllm serve` runs; that command wants a package named vllm, and this one is vllm-cpu.
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", "demo", "--host", "127.0.0.1", "--port", str(port)),
        *("--kv-transfer-config", json.dumps(connector)),
        *("--dtype", "float32", "--enforce-eager", "--block-size", "32"),
        *("--max-model-len", "4096", "--max-num-seqs", "4"),
        "--enable-prompt-tokens-details",
    ]
