"""What of vLLM's server the demo speaks to, without vLLM: `python vllm_stub.py PORT CACHED EXTERNAL`.

It answers every question with the words "an answer", after so many cached tokens of 100.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, CACHED, EXTERNAL = map(int, sys.argv[1:])
HITS = "vllm:external_prefix_cache_hits_total"
asked_count = 0


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        """Health and metrics."""
        metrics = f'# TYPE {HITS[:-6]} counter\n{HITS}{{engine="0"}} {EXTERNAL * asked_count}.0\n'
        self._reply(metrics if self.path == "/metrics" else "")

    def do_POST(self) -> None:
        """A question."""
        global asked_count
        asked_count += 1
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["stream"]
        assert asked["temperature"] == 0
        usage = {
            "prompt_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": CACHED} if CACHED else None,
        }
        events = [
            {"choices": [{"delta": {"role": "assistant"}}]},
            {"choices": [{"delta": {"content": "an "}}]},
            {"choices": [{"delta": {"content": "answer"}}]},
            {"choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self._reply("".join([*lines, "data: [DONE]\n\n"]))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def _reply(self, body: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())


# It may reuse addresses, and so listens on a port that whoever started it keeps for it.
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
