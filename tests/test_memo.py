"""The one memo of the core: bounded, least recently used first, shared by threads."""

from __future__ import annotations

from random import Random
from typing import Any

from threads import in_threads, turns

from netcl_core.cache import Memo


def test_the_least_recently_used_value_goes_first() -> None:
    memo: Memo[str, int] = Memo(2)
    memo.put("a", 1)
    memo.put("b", 2)
    assert memo.get("a") == 1  # used: now b is older
    memo.put("c", 3)
    assert [memo.get(key) for key in "abc"] == [1, None, 3]
    assert list(memo) == ["a", "c"] and len(memo) == 2


def test_the_first_value_of_a_key_stays() -> None:
    memo: Memo[str, int] = Memo(2)
    assert memo.put("a", 1) == 1
    assert memo.put("a", 2) == 1
    memo.drop("a")
    memo.drop("a")
    assert memo.put("a", 2) == 2
    memo.clear()
    assert len(memo) == 0 and memo.get("a") is None


def test_threads_share_a_memo() -> None:
    memo: Memo[int, int] = Memo(8)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for turn in range(2000):
            key = (turn * 7 + seed) % 24
            found = memo.get(key)
            if (memo.put(key, key) if found is None else found) != key:
                wrong.append(key)

    with turns(1e-6):
        in_threads(work, 6)
    assert wrong == [] and len(memo) == 8


def test_the_order_of_use_is_exact() -> None:
    """As that of a list in which every use moves a key to the end."""
    random = Random(1)
    for size in (1, 2, 7):
        memo: Memo[int, int] = Memo(size)
        used: list[int] = []
        for _ in range(2000):
            key = random.randrange(12)
            if random.random() < 0.1:
                memo.drop(key)
                used = [each for each in used if each != key]
                continue
            assert memo.get(key) == (key if key in used else None)
            if key not in used:
                memo.put(key, key)
            used = [*(each for each in used if each != key), key][-size:]
            assert sorted(memo) == sorted(used)
        assert len(memo._heap) <= 2 * size + 1


def test_keys_that_cannot_be_ordered() -> None:
    memo: Memo[object, int] = Memo(3)
    for i in range(50):
        key = object()
        memo.put(key, i)
        memo.drop(key)
        memo.put(key, i + 1)
        assert memo.get(key) == i + 1
