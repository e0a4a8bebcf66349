"""What the end of a check means: a table of ends and states, and that green is hard to get."""

from __future__ import annotations

import json
from typing import Any

import pytest
from netcl_market.manifests import Manifest, parse
from netcl_plugin_tools.matrix import judging
from netcl_plugin_tools.matrix.environments import _refused
from netcl_plugin_tools.matrix.judging import CellVerdict
from netcl_plugin_tools.matrix.processes import Ended
from netcl_plugin_tools.matrix.records import Cell
from netcl_plugin_tools.matrix.runtimes import RUNTIMES, Presence

CELL = Cell("netcl-plugin-swish", "0.3", "0.1.1", "2", "3.11", "numpy", "run")
STATIC = Cell("netcl-plugin-swish", "0.3", "0.1.1", "2", "3.11", "numpy", "static")


@pytest.fixture
def presence(numpy_path: dict[str, Any]) -> Presence:
    return Presence(RUNTIMES["numpy"], device=numpy_path)


def judge(presence: Presence, record: Any, code: int = 0, cell: Cell = CELL) -> CellVerdict:
    text = record if isinstance(record, str) else json.dumps(record)
    verdict = judging.of_check(cell, Ended(code, text, "last words"), presence)
    assert verdict is not None
    return verdict


def test_all_is_well(presence: Presence, check: Any) -> None:
    verdict = judge(presence, check())
    assert (verdict.state, verdict.reason) == ("pass", "")
    assert verdict.check is not None


def test_the_reason_is_the_first_failure(presence: Presence, check: Any, outcome: Any) -> None:
    bad = outcome(check="gradient", state="failed", reason="0.3, not 0.5\nmore")
    also = outcome(state="failed", reason="another")
    verdict = judge(presence, check(state="fail", outcomes=[outcome(), bad, also]), code=1)
    assert (verdict.state, verdict.reason) == ("fail", "swish gradient float32: 0.3, not 0.5")


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        (("NC602",), "setup_error"),
        (("NP209", "NC602"), "setup_error"),
        (("NC601",), "fail"),  # it ended the process
        (("NC602", "NC601"), "fail"),
    ],
)
def test_a_time_out_says_nothing_about_the_plugin(
    presence: Presence, check: Any, outcome: Any, codes: tuple[str, ...], state: str
) -> None:
    bad = [outcome(check="load", op="", state="failed", reason=f"{code}: why") for code in codes]
    verdict = judge(presence, check(state="fail", outcomes=bad), code=1)
    assert verdict.state == state
    assert f"{codes[0]}: why" in verdict.reason


def test_nothing_but_a_check_that_passed_on_the_device_is_green(
    presence: Presence, check: Any, outcome: Any
) -> None:
    skipped = outcome(state="skipped", reason="no float16 here")
    without = outcome(check="manifest", device="", op="")
    for outcomes in ([], [skipped], [without], [without, skipped], [outcome(state="xfailed")]):
        verdict = judge(presence, check(outcomes=outcomes))
        assert verdict.state == "unsupported", outcomes
        assert "nothing was checked on its device" in verdict.reason
    assert judge(presence, check(outcomes=[skipped])).reason.endswith("no float16 here")
    assert judge(presence, check(outcomes=[without]), cell=STATIC).state == "pass"
    assert judge(presence, check(outcomes=[]), cell=STATIC).state == "unsupported"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"plugin": "netcl-plugin-other"}, "the record is of netcl-plugin-other 0.3 0.1.1"),
        ({"version": "0.2"}, "not of netcl-plugin-swish 0.3 0.1.1"),
        ({"core": "0.1.0"}, "the record is of netcl-plugin-swish 0.3 0.1.0"),
        ({"state": "fail"}, "says 'fail', but none of its checks failed"),
        ({"schema": 2}, "without a record"),
        ({"kind": "cell"}, "without a record"),
    ],
)
def test_a_record_that_does_not_fit(
    presence: Presence, check: Any, changes: dict[str, Any], words: str
) -> None:
    verdict = judge(presence, check(**changes))
    assert verdict.state == "setup_error"
    assert words in verdict.reason


def test_another_device_does_not_count(check: Any, opencl: dict[str, Any]) -> None:
    verdict = judge(Presence(RUNTIMES["pocl"], device=opencl), check())
    said = "the check ran on NumPy of NumPy, not on Portable Computing Language"
    assert (verdict.state, verdict.reason) == ("setup_error", said)


@pytest.mark.parametrize(
    ("ended", "state", "reason"),
    [
        (Ended(None, "", "busy"), "setup_error", "the check ran out of time"),
        (Ended(-11, "", "boom"), "setup_error", "the check was ended by SIGSEGV"),
        (Ended(0, "", ""), "setup_error", "the check ended with exit code 0 without a record"),
        (Ended(0, "hello", ""), "setup_error", "without a record"),
        (Ended(1, "", "Traceback"), "setup_error", "exit code 1 without a record"),
        (Ended(2, "", "Error: No such command 'check'."), "unsupported", "has no `netcl plugins"),
        (Ended(2, "", "Error: No such option"), "setup_error", "exit code 2 without a record"),
    ],
)
def test_a_check_that_did_not_come_to_its_end(
    presence: Presence, ended: Ended, state: str, reason: str
) -> None:
    verdict = judging.of_check(CELL, ended, presence)
    assert verdict is not None
    assert verdict.state == state
    assert reason in verdict.reason


def test_a_check_that_says_pass_and_ends_with_1_is_not_green(
    presence: Presence, check: Any
) -> None:
    assert judge(presence, check(), code=1).state == "setup_error"


def test_a_refused_device_is_a_failure(opencl: dict[str, Any]) -> None:
    presence = Presence(RUNTIMES["pocl"], device=opencl)
    ended = Ended(3, "", "netcl: no usable device")
    assert judging.of_check(CELL, ended, presence) is None
    refused = {"name": "pthread", "platform": "Portable Computing Language", "reason": "no build"}
    verdict = judging.of_devices(ended, {"rejected": [refused]}, presence)
    said = "the device pthread cannot be used: no build"
    assert (verdict.state, verdict.reason) == ("fail", said)
    other = {**refused, "platform": "Another"}
    for found in ({"rejected": [other]}, {"rejected": []}, {}):
        assert judging.of_devices(ended, found, presence).state == "setup_error"


def test_a_refused_device_of_another_library_is_not_the_gpu(opencl: dict[str, Any]) -> None:
    gpu = {**opencl, "kind": "gpu", "name": "A100", "platform": "NVIDIA CUDA"}
    presence = Presence(RUNTIMES["gpu"], device=gpu)
    ended = Ended(3, "", "netcl: no usable device")
    other = {"name": "pthread", "platform": "Portable Computing Language", "reason": "no build"}
    assert judging.of_devices(ended, {"rejected": [other]}, presence).state == "setup_error"
    own = {"name": "A100", "platform": "NVIDIA CUDA", "reason": "no build"}
    assert judging.of_devices(ended, {"rejected": [other, own]}, presence).state == "fail"


def manifest(**requires: Any) -> Manifest:
    return parse({"plugin": {"name": "swish", "api": [1, 0]}, "requires": requires})


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        ({}, None),
        ({"max_work_group_size": 4096}, None),
        ({"extensions": ["cl_khr_fp16"]}, "pthread (Portable Computing Language) lacks cl_khr"),
        ({"device_types": ["gpu"]}, "it needs a gpu"),
        ({"local_mem_bytes": 1 << 30}, "it needs local_mem_bytes of at least"),
    ],
)
def test_what_a_manifest_asks_of_a_device(
    opencl: dict[str, Any], presence: Presence, requires: dict[str, Any], reason: str | None
) -> None:
    verdict = judging.of_device(manifest(**requires), Presence(RUNTIMES["pocl"], device=opencl))
    if reason is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert verdict.state == "unsupported"
        assert reason in verdict.reason
    assert judging.of_device(manifest(**requires), presence) is None  # the NumPy path always will


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            "error: No solution found when resolving dependencies\n  cause: Because the current "
            "Python version (3.11.7) does not satisfy Python>=3.14 and x needs it\n\nhint: Wait",
            "versions exclude each other: Because the current Python version (3.11.7) does not "
            "satisfy Python>=3.14 and x needs it",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because a needs\n b<1",
            "versions exclude each other: Because a needs b<1",
        ),
    ],
)
def test_what_uv_says_of_versions(said: str, problem: str) -> None:
    made = _refused(Ended(1, "", said))
    assert made.excluded
    assert made.problem.partition("\n")[0] == problem


@pytest.mark.parametrize(
    "said",
    [
        "No solution found when resolving dependencies\n  cause: Because numpy<=2.3.5 need to be "
        "downloaded from a registry\n\nhint: Packages were unavailable because the network was "
        "disabled.",
        "No solution found when resolving dependencies\n"
        "Because b was not found in the provided package locations",
        "error: Failed to extract archive",
    ],
)
def test_what_uv_says_of_anything_else(said: str) -> None:
    made = _refused(Ended(1, "", said))
    assert not made.excluded
    assert made.problem == f"uv ended with exit code 1\n{said}"
