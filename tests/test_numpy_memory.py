"""The NumPy path's memory: pages are not asked for again, and values in between do not pile up."""

from __future__ import annotations

import platform
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag

#: In a process of its own, since a heap remembers what others did. Arrays of 1 MiB, 24 at a time.
_ROUNDS = """
import resource
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag

with nc.use_device("numpy"):
    x = nc.tensor(np.ones(1 << 18, np.float32))
    before = 0
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        held = [ag.exp(x) for _ in range(24)]
        del held
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep what they do")
def test_a_round_finds_the_memory_of_the_round_before() -> None:
    """24 MiB are 6144 pages; by glibc's defaults the system clears nearly all in each round."""
    found = subprocess.run(
        [sys.executable, "-c", _ROUNDS], check=True, capture_output=True, text=True
    )
    assert int(found.stdout) < 600


@pytest.mark.parametrize("compiled", [False, True])
def test_values_in_between_are_let_go_of(compiled: bool) -> None:
    """A chain of 36 times three ops holds no more arrays at a time than one of 12."""
    peaks = {}
    with nc.use_device("numpy"):
        for count in (12, 36):

            def chain(x: ag.Node, count: int = count) -> ag.Node:
                for _ in range(count):
                    x = ag.tanh(x * 2 + 1)
                return x

            function = ag.jit_compile(chain) if compiled else chain
            x = ag.tensor(np.ones(1 << 18, np.float32))
            with ag.no_grad():
                function(x)
                tracemalloc.start()
                try:
                    function(x)
                    peaks[count] = tracemalloc.get_traced_memory()[1] / x.value.buffer.nbytes
                finally:
                    tracemalloc.stop()
    assert peaks[36] < peaks[12] + 0.5, peaks


def test_a_source_names_only_what_is_read_twice() -> None:
    """What is read once stands in the expression; what is read more often goes when it is done."""
    with nc.use_device("numpy"):
        x = ag.tensor(np.linspace(-2, 2, 7, dtype=np.float32), requires_grad=True)
        once = ag.jit_compile(lambda x: ag.exp(x * 2) + x)
        assert once.lower(x).forward_source.count(" = ") == 1
        twice = ag.jit_compile(lambda x: ag.tanh((y := ag.exp(x)) * y) + 1)
        text = twice.lower(x).forward_source
        assert text.count(" = ") == 2, text
        ag.sum(twice(x)).backward()
        y = np.exp(x.numpy().astype(np.float64)) ** 2
        np.testing.assert_allclose(x.grad.numpy(), (1 - np.tanh(y) ** 2) * 2 * y, 2e-3, 1e-6)


def test_long_chains_nest_no_deeper_than_python_parses() -> None:
    """A hundred steps, each read once, are several statements."""
    with nc.use_device("numpy"):

        def chain(x: ag.Node) -> ag.Node:
            for _ in range(100):
                x = -(x + 1)
            return x

        x = ag.tensor(np.zeros(3, np.float32))
        compiled = ag.jit_compile(chain)
        np.testing.assert_array_equal(compiled(x).numpy(), np.zeros(3, np.float32))
        text = compiled.lower(x).forward_source
        depth = max(sum((c == "(") - (c == ")") for c in text[:i]) for i in range(len(text)))
        assert depth < 80, depth
