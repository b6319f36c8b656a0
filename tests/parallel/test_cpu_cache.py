"""The size of the cache is read from what Linux tells, and taken as usual where nothing can be read."""

from pathlib import Path

import pytest

from probsysid.odefilter.filter import LARGEST, block_size
from probsysid.parallel.cpu_cache import USUAL, first_level_cache


def tell(folder: Path, *caches: tuple[str, str, str]) -> Path:
    for k, cache in enumerate(caches):
        (folder / f"index{k}").mkdir()
        for name, text in zip(("level", "type", "size"), cache, strict=True):
            (folder / f"index{k}" / name).write_text(text + "\n")
    return folder


def test_the_data_cache_of_the_first_level_counts(tmp_path: Path) -> None:
    folder = tell(tmp_path, ("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "1M"))
    assert first_level_cache(folder) == 48 * 1024


@pytest.mark.parametrize("size", ["", "large", "48G", "K"])
def test_what_cannot_be_read_is_as_usual(tmp_path: Path, size: str) -> None:
    assert first_level_cache(tell(tmp_path, ("1", "Data", size))) == USUAL
    assert first_level_cache(tmp_path / "nothing") == USUAL


def test_blocks_follow_from_the_cache() -> None:
    """Twice the cache, twice the particles per block, between the smallest and the largest that vectorise well."""
    blocks = {size: block_size(working_set=36, smallest=16, cache=1024 * size) for size in (1, 4, 8, 16, 10**6)}
    assert blocks[1] == 16 and blocks[10**6] == LARGEST
    assert blocks[16] == 2 * blocks[8] and blocks[1] <= blocks[4] <= blocks[8]
