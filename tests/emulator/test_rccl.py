"""Collectives of the emulated librccl, among threads and among processes."""

from __future__ import annotations

import subprocess
import sys
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from machines import two_machines

from emulator.machine import emulator_folder
from emulator.ranks import COUNT, TYPES, numbers, rank_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUCCESS, SYSTEM_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS = 0, 2, 4, 5, 6, 7


@pytest.fixture(autouse=True)
def _built() -> None:
    emulator_folder()


def as_threads(world: int) -> list[list[int]]:
    return [list(range(world))]


def as_processes(world: int) -> list[list[int]]:
    return [[rank] for rank in range(world)]


def average(total: np.ndarray[Any, Any], values: list[np.ndarray[Any, Any]]) -> list[Any]:
    if np.issubdtype(total.dtype, np.integer):
        return list((total // len(values)).tolist())
    share = total.dtype.type(1 / len(values))
    return list(reduce(np.add, [value * share for value in values]).tolist())


def expected(rank: int, world: int, dtype: Any) -> dict[str, Any]:
    """What a rank gets of every call."""
    own = [numbers(each, dtype) for each in range(world)]
    parts = [numbers(each, dtype, world).reshape(world, COUNT) for each in range(world)]
    total = reduce(np.add, own)
    sizes = [to + 1 for to in range(world)]
    start = sum(sizes[:rank])
    pieces = [numbers(each, dtype, world)[start : start + rank + 1].tolist() for each in range(world)]
    return {
        "all_reduce sum": total.tolist(),
        "all_reduce prod": reduce(np.multiply, own).tolist(),
        "all_reduce max": reduce(np.maximum, own).tolist(),
        "all_reduce min": reduce(np.minimum, own).tolist(),
        "all_reduce avg": average(total, own),
        "in place": total.tolist(),
        "reduce max": reduce(np.maximum, own).tolist() if rank == 1 else None,
        "reduce_scatter": reduce(np.add, parts)[rank].tolist(),
        "all_gather": np.concatenate(own).tolist(),
        "broadcast": own[-1].tolist(),
        "bcast": own[0].tolist(),
        "gather": np.concatenate(own).tolist() if rank == 0 else None,
        "scatter": parts[0][rank].tolist(),
        "all_to_all": np.concatenate([part[rank] for part in parts]).tolist(),
        "ring": own[(rank - 1) % world].tolist(),
        "all_to_all_v": [element for piece in pieces for element in piece],
    }


@pytest.mark.parametrize(("world", "placed"), [(2, as_threads), (2, as_processes), (3, as_processes), (4, as_threads)])
def test_every_call_of_every_type(tmp_path: Path, world: int, placed: Any) -> None:
    found = rank_outputs("every_call", tmp_path, world, processes=placed(world))
    assert sorted(found) == list(range(world))
    for rank, results in found.items():
        assert set(results) == set(TYPES), results
        for name, (_, dtype) in TYPES.items():
            # A third is no float: the order of the ranks shows in the average of three.
            tolerance = 0 if world != 3 else 1e-2
            wanted = expected(rank, world, dtype)
            got = results[name]
            np.testing.assert_allclose(got.pop("all_reduce avg"), wanted.pop("all_reduce avg"), rtol=tolerance)
            assert got == wanted, (rank, name)


def test_ranks_go_on_when_the_one_that_made_the_id_has_ended(tmp_path: Path) -> None:
    assert rank_outputs("first_goes", tmp_path, 3, processes=as_processes(3)) == {0: [], 1: [2], 2: [1]}


def test_sums_are_equal_to_the_bit_and_their_order_is_the_seed_s(tmp_path: Path) -> None:
    seen = set()
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        environ = {"CANDLE_ROCM_EMULATOR_SEED": str(seed)}
        found = rank_outputs("sums", folder, 4, processes=as_threads(4), environ=environ)
        assert found[0] == found[1] == found[2] == found[3]
        seen.add("".join(found[0]))
        for each, text in enumerate(found[0]):
            rows = [np.random.default_rng([each, rank]).standard_normal(64).astype(np.float32) for rank in range(4)]
            sums = np.frombuffer(bytes.fromhex(text), np.float32)
            exact = np.sum(np.array(rows, np.float64), axis=0)
            np.testing.assert_allclose(np.array(sums, np.float64), exact, rtol=0, atol=2e-6)
    assert len(seen) > 1


def test_ranks_may_multiply_by_a_number_of_their_own(tmp_path: Path) -> None:
    found = rank_outputs("scaled", tmp_path, 2, processes=as_threads(2))
    wanted = [2 * element + 3 * (element + 1) for element in range(4)]
    assert found == {rank: {"host": wanted, "device": wanted, "destroyed": INVALID_ARGUMENT} for rank in range(2)}


@pytest.mark.parametrize("placed", [as_threads, as_processes])
def test_a_communicator_is_parted(tmp_path: Path, placed: Any) -> None:
    found = rank_outputs("parted", tmp_path, 5, processes=placed(5))
    assert found == {
        0: {"part": 0, "rank": 1, "ranks": [2, 0]},
        1: {"part": 1, "rank": 1, "ranks": [3, 1]},
        2: {"part": 0, "rank": 0, "ranks": [2, 0]},
        3: {"part": 1, "rank": 0, "ranks": [3, 1]},
        4: {"part": None},
    }


def test_a_graph_sums_each_time_that_it_is_launched(tmp_path: Path) -> None:
    found = rank_outputs("captured", tmp_path, 2, processes=as_processes(2))
    assert found == {0: [1, 3, 6, 12], 1: [2, 3, 6, 12]}


def test_calls_on_two_streams_keep_their_order(tmp_path: Path) -> None:
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        environ = {"CANDLE_ROCM_EMULATOR_SEED": str(seed)}
        found = rank_outputs("two_streams", folder, 2, processes=as_processes(2), environ=environ)
        assert found == {rank: [10, 12, 14, 16, 18, 20] for rank in range(2)}


def test_a_rank_may_come_without_waiting(tmp_path: Path) -> None:
    found = rank_outputs("without_waiting", tmp_path, 2, processes=as_processes(2))
    assert found == {rank: {"first": IN_PROGRESS, "then": SUCCESS, "sum": [2]} for rank in range(2)}


@pytest.mark.parametrize(
    ("scenario", "result", "text"),
    [
        ("one_dies", REMOTE_ERROR, "rank 2 is gone"),
        ("one_aborts", REMOTE_ERROR, "rank 2 is gone"),
        (
            "one_is_late",
            REMOTE_ERROR,
            "ncclAllReduce (Sum) of 1 F32: rank 2 did not come within 1s",
        ),
        ("another_count", INVALID_USAGE, "ncclAllReduce (Sum) of 2 F32"),
    ],
)
def test_every_rank_learns_of_a_failure(tmp_path: Path, scenario: str, result: int, text: str) -> None:
    environ = {"CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT": "1"}
    found = rank_outputs(scenario, tmp_path, 3, processes=as_processes(3), environ=environ)
    for rank in range(2):
        outcome = found[rank]
        assert text in outcome["problem"]
        # Who is told before its call does not begin it.
        assert outcome["first"] in (SUCCESS, result)
        assert (outcome["async"], outcome["again"]) == (result, result)
        assert outcome["received"] == "nan" or outcome["first"] == result


def test_a_rank_that_is_gone_may_be_waited_for_without_end(tmp_path: Path) -> None:
    environ = {"CANDLE_ROCM_EMULATOR_RCCL_HANGS": "1"}
    found = rank_outputs("aborted_while_it_hangs", tmp_path, 2, processes=as_processes(2), environ=environ)
    assert found[0]["seconds"] > 0.9


def test_ranks_that_do_not_fit_together_do_not_come_together(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("late", "twice", "same")]
    for folder in folders:
        folder.mkdir()
    late, twice, same = folders
    environ = {"CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT": "1"}
    found = rank_outputs("joining", late, 3, processes=[[0], [2]], environ=environ)
    assert {outcome["result"] for outcome in found.values()} == {REMOTE_ERROR}
    assert {outcome["report"] for outcome in found.values()} == {"rank 1 of 3 did not come within 1s"}
    found = rank_outputs("joining", twice, 3, processes=[[0], [1], [1]], environ=environ)
    assert "rank 1 came twice" in {outcome["report"] for outcome in found.values()}
    (same / "id").write_bytes(bytes(128))
    found = rank_outputs("joining", same, 2, processes=[[1]])
    garbled = "the ncclUniqueId is garbled, or was made by another library"
    assert found == {1: {"result": INVALID_ARGUMENT, "report": garbled}}


def test_no_communicator_is_made_with_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT", "soon")
    library = emulator_folder() / "librccl.so"
    program = f"import ctypes; print(ctypes.CDLL('{library}').ncclGetUniqueId(ctypes.create_string_buffer(128)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == f"{SYSTEM_ERROR}\n"


def test_ranks_of_one_machine_have_a_gpu_each(tmp_path: Path) -> None:
    found = rank_outputs("same_device", tmp_path, 2, processes=as_processes(2))
    assert [found[rank]["result"] for rank in range(2)] == [INVALID_USAGE] * 2
    assert all(
        "ranks 0 and 1 have the same GPU" in found[rank]["report"].replace("1 and 0", "0 and 1") for rank in found
    )


@pytest.fixture
def machines() -> Iterator[list[list[str]]]:
    with two_machines() as commands:
        yield commands


def test_network_namespaces_are_machines(tmp_path: Path, machines: list[list[str]]) -> None:
    """Ranks of two machines meet over TCP, and each machine has a GPU of that number."""
    found = rank_outputs("every_call", tmp_path, 2, processes=as_processes(2), within=machines)
    assert set(found[0]) == set(TYPES), found
    assert found[0]["float16"]["all_gather"] == expected(0, 2, np.float16)["all_gather"]
    assert [set(results) for results in found.values()] == [set(TYPES)] * 2
    (tmp_path / "id").unlink()
    outcomes = rank_outputs("same_device", tmp_path, 2, processes=as_processes(2), within=machines)
    assert [outcome["result"] for outcome in outcomes.values()] == [SUCCESS] * 2
