"""Peak resident memory of a training rank with the plugin and without, in pairs.

resident.py BUILD_FOLDER [PAIRS]: charlm on two ranks over hostnccl, in enforce with the metrics page and the
plane up, beside the same job without the plugin. The figure is that of the larger of the two ranks; one JSON
object. UCX is in both: hostnccl has it too.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

LIMIT_MIB = 40
JOB = ["--steps", "300", "--context", "6", "--hidden", "24", "--batch", "8", "--initial-scale", "65536"]
SETTINGS = ["STEPGATE_METRICS_PORT=0", "STEPGATE_PLANE=on"]


def peak_mib(build, options):
    """Of the largest process among the launcher's ranks, by the kernel's own account of ended children."""
    launch = [f"{build}/bin/stepgate", "run", "-n", "2", "--nccl", "host", *options]
    command = [*launch, "--", f"{build}/bin/charlm", *JOB]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    told = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"resident.py: {' '.join(command)}: status {os.waitstatus_to_exitcode(status)}\n{told}")
    return usage.ru_maxrss / 1024


def main(argv):
    good = len(argv) in (2, 3) and (len(argv) == 2 or (argv[2].isdigit() and 1 <= int(argv[2]) <= 100))
    if not good or not (Path(argv[1]) / "bin/charlm").exists():
        sys.exit("usage: resident.py BUILD_FOLDER [PAIRS]: where charlm is built; 1 to 100 pairs, default 5")
    build = Path(argv[1]).resolve()
    plugin = ["--mode", "enforce"] + [word for setting in SETTINGS for word in ("--set", setting)]
    plain, loaded = [], []
    for pair in range(int(argv[2]) if len(argv) == 3 else 5):
        for turn in range(2):
            if (pair + turn) % 2 == 0:
                plain.append(peak_mib(build, ["--no-plugin"]))
            else:
                loaded.append(peak_mib(build, plugin))
    added = statistics.median(w - o for w, o in zip(loaded, plain))
    medians = {"plain_mib": statistics.median(plain), "with_plugin_mib": statistics.median(loaded)}
    rounded = {name: round(value, 2) for name, value in {**medians, "added_mib": added}.items()}
    print(json.dumps({"benchmark": "resident", "pairs": len(plain), **rounded, "limit_mib": LIMIT_MIB}))


if __name__ == "__main__":
    main(sys.argv)
