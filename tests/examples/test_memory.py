"""The KV cache in shared memory: a block of a layer is one contiguous piece of the file."""

from contextlib import closing

from examples.engine.memory import KvLayout, KvMemory

LAYOUT = KvLayout(layer_count=3, block_count=5, kv_head_count=2, head_dim=4)


def test_a_block_of_a_layer_is_one_piece_of_the_file() -> None:
    with closing(KvMemory(LAYOUT)) as memory:
        memory.tensor[2, 3] = 7.0
        content = memory.shared.path.read_bytes()
    offset = 2 * LAYOUT.layer_bytes + 3 * LAYOUT.piece_bytes
    piece = content[offset : offset + LAYOUT.piece_bytes]
    assert len(content) == LAYOUT.size_bytes
    assert set(memoryview(piece).cast("f")) == {7.0}
    assert not any(content[:offset])
    assert not any(content[offset + LAYOUT.piece_bytes :])


def test_the_file_goes_with_its_engine() -> None:
    with closing(KvMemory(LAYOUT)) as memory:
        assert memory.shared.path.exists()
    assert not memory.shared.path.exists()
