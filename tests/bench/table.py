"""The table of benchmarks: what run.sh builds, runs and judges. A folder of tests/bench has one row here.

A row's command is run in the repository's root, "{build}" stands for the build folder; it prints one JSON
value. A goal takes one figure out of that. "quick" is for seeing that everything runs: its figures are not to
be quoted.
"""

from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Goal:
    text: str
    unit: str
    figure: Callable  # of the command's JSON; LookupError: it is not there
    relation: str  # ">=" or "<"
    limit: float


@dataclass(frozen=True)
class Benchmark:
    name: str  # the folder's
    targets: list  # CMake's
    command: list
    quick: list
    goals: list = field(default_factory=list)


def slowest_loop(kind, types):
    """The lowest rate, as a share of the plain loop's, of the kernels that this machine would choose."""

    def figure(result):
        wanted = f"{kind} {result['best']}"
        loops = [loop for row in result["types"] if row["type"] in types for loop in row["loops"]]
        return min(loop["of_plain"] for loop in loops if loop["name"] == wanted)

    return figure


def beside_open_mpi(label, ranks, size):
    def figure(result):
        rows = [r for r in result if (r["open_mpi"], r["ranks"], r["bytes"]) == (label, ranks, size)]
        ratios = sorted(r["times_as_fast"] for r in rows)
        return ratios[len(ratios) // 2]

    return figure


def at(*path):
    def figure(result):
        for key in path:
            result = result[key]
        return result

    return figure


MIB_64 = 64 << 20
NARROW = ("fp32", "fp16", "bf16")
CORE = "% of a core"
PLUGIN = ["stepgate_shim", "stepgate_core_so", "stepgate_ucx", "stepgate_hostnccl"]


def goal_of_rate(text, kind, share):
    return Goal(text, "of its rate", slowest_loop(kind, NARROW), ">=", share)


def goal_beside_open_mpi(label, ranks, size):
    amount = "64 MiB" if size == MIB_64 else f"{size} bytes"
    peer = "Open MPI over UCX" if label == "ucx" else "Open MPI"
    text = f"all-reduce of {amount}, {ranks} ranks, as it comes beside {peer}"
    return Goal(text, "times as fast", beside_open_mpi(label, ranks, size), ">=", 1)


BENCHMARKS = [
    Benchmark(
        "host_scan",
        ["bench_host_scan"],
        ["{build}/bin/bench_host_scan", "--json"],
        ["{build}/bin/bench_host_scan", "--json", "--mib", "64", "--rounds", "3"],
        [
            goal_of_rate("scan of fp32, fp16, bf16 beside a plain read loop, 512 MiB", "scan", 0.75),
            goal_of_rate("apply in place beside a plain scale loop, 512 MiB", "apply", 0.85),
        ],
    ),
    Benchmark(
        "hostnccl",
        ["bench_hostnccl"],
        ["tests/bench/hostnccl/run.sh", "{build}"],
        ["tests/bench/hostnccl/run.sh", "{build}", "1", "10"],
        [
            goal_beside_open_mpi("default", 2, MIB_64),
            goal_beside_open_mpi("default", 4, MIB_64),
            goal_beside_open_mpi("ucx", 2, 64),
            goal_beside_open_mpi("default", 4, 64),
        ],
    ),
    Benchmark(
        "observe",
        ["bench_observe"],
        ["{build}/bin/bench_observe"],
        ["{build}/bin/bench_observe", "--mib", "32", "--rounds", "3"],
        [Goal("what observe adds to an all-reduce, beside a read loop", "times", at("of_read"), "<", 1.25)],
    ),
    Benchmark(
        "plane",
        ["plane_bench"],
        ["{build}/bin/plane_bench", "64"],
        ["{build}/bin/plane_bench", "8"],
    ),
    Benchmark(
        "preload",
        ["bench_preload"],
        ["{build}/bin/bench_preload"],
        ["{build}/bin/bench_preload", "--pairs", "50"],
        [Goal("what the preload adds to `true`", "ms", at("added_ms"), "<", 1.0)],
    ),
    Benchmark(
        "publisher",
        ["bench_publisher"],
        ["{build}/bin/bench_publisher", "--json"],
        ["{build}/bin/bench_publisher", "--json", "--seconds", "1", "--rounds", "1"],
        [
            Goal("publisher at 1,000 steps a second", CORE, at("core_percent"), "<", 2),
            Goal("the same, scraped every second", CORE, at("core_percent_scraped_every_second"), "<", 2),
        ],
    ),
    Benchmark(
        "resident",
        ["stepgate", "charlm", *PLUGIN],
        ["tests/bench/resident/run.sh", "{build}"],
        ["tests/bench/resident/run.sh", "{build}", "1"],
        [Goal("what the plugin adds to a rank's peak memory", "MiB", at("added_mib"), "<", 40)],
    ),
    Benchmark(
        "transport",
        ["transport_bench"],
        ["{build}/bin/transport_bench", "-j"],
        ["{build}/bin/transport_bench", "-j", "-i", "1000"],
    ),
]
