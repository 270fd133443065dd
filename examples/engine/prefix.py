"""Decides how a block is named: by a hash of every token up to its end.

Two blocks with one hash hold interchangeable keys and values, since those depend on nothing but
the tokens before and in the block (and on the model, which the caller keeps apart). Pure; anyone
may call it.
"""

import hashlib
from array import array
from collections.abc import Sequence

BLOCK_TOKENS = 16
HASH_BYTES = 32

_ROOT = bytes(HASH_BYTES)


def chain_hashes(tokens: Sequence[int], salt: bytes = b"") -> list[bytes]:
    """Name the full blocks of a token sequence; a last, partly filled block has no name.

    Each hash is SHA-256 over the parent's hash, then the block's tokens as 32-bit integers. The
    first block's parent is 32 zero bytes, and the salt follows its tokens: parent and tokens have
    fixed lengths, so no salt can imitate another prefix.

    Args:
        tokens: Token ids of the sequence from its first token.
        salt: Separates users who must not see each other's prefixes; it reaches every block
            through the chain.

    Returns:
        One 32-byte hash per full block, in order.
    """
    hashes: list[bytes] = []
    parent = _ROOT
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        digest = hashlib.sha256(parent)
        digest.update(array("i", tokens[start : start + BLOCK_TOKENS]).tobytes())
        if start == 0:
            digest.update(salt)
        parent = digest.digest()
        hashes.append(parent)
    return hashes


def blocks_for(token_count: int) -> int:
    """Count the blocks that hold so many tokens."""
    return -(-token_count // BLOCK_TOKENS)
