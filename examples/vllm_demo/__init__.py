"""kvstow behind `vllm serve`: a server is killed, and the next one does not read the document again."""
