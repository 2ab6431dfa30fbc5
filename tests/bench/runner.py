"""What tests/bench/run.sh runs. The table of benchmarks is table.py's."""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 1800  # seconds, for one benchmark

EPILOG = """exit status: 0 all goals held, 1 a goal was missed or a benchmark failed, 2 bad arguments.
Run it on a machine that does nothing else; the load before each benchmark stands beside its figures."""


def table_of(path):
    """The rows of table.py, or of another file of that form."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("bench_table", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.BENCHMARKS


def arguments(argv):
    parser = argparse.ArgumentParser(
        prog="tests/bench/run.sh",
        description="Runs every benchmark, prints a table of goals and writes all figures as JSON.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--list", action="store_true", help="print the benchmarks' names and goals, run nothing")
    add("--only", action="append", metavar="NAME", help="only this one; may be given again")
    add("--quick", action="store_true", help="few rounds: all of it runs, its figures mean little")
    add("--build", type=Path, default=Path("build/dev"), metavar="FOLDER", help="build folder (build/dev)")
    add("--no-build", action="store_true", help="take the programs as they are")
    add("--json", type=Path, metavar="FILE", help="where the figures go (FOLDER/bench.json)")
    add("--table", type=Path, default=ROOT / "tests/bench/table.py", help=argparse.SUPPRESS)
    return parser, parser.parse_args(argv)


def chosen(parser, rows, only):
    names = [row.name for row in rows]
    for name in only or []:
        if name not in names:
            parser.error(f"--only: there is no benchmark '{name}'; allowed: {', '.join(names)}")
    return [row for row in rows if not only or row.name in only]


def show(rows):
    for row in rows:
        print(row.name)
        for goal in row.goals:
            print(f"    {goal.text}: {goal.relation} {goal.limit:g} {goal.unit}")
        if not row.goals:
            print("    no goal: figures only")


def build(parser, folder, rows):
    if not (folder / "CMakeCache.txt").exists():
        parser.error(f"--build: '{folder}' is no build folder; cmake --preset dev makes build/dev")
    targets = [target for row in rows for target in row.targets]
    command = ["cmake", "--build", folder, "--target", *targets]
    if targets and subprocess.run(command, stdout=sys.stderr).returncode != 0:
        sys.exit("tests/bench/run.sh: the build failed; its own message stands above")


def measure(row, folder, quick):
    """The command's JSON, or None and why."""
    command = [word.replace("{build}", str(folder)) for word in (row.quick if quick else row.command)]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=DEADLINE)
    except OSError as error:
        return None, f"cannot run: {error}"
    except subprocess.TimeoutExpired:
        return None, f"{' '.join(command)}: not over after {DEADLINE} seconds"
    try:
        return json.loads(done.stdout), ""  # some tell a missed limit by their status, too
    except json.JSONDecodeError:
        return None, f"{' '.join(command)}: status {done.returncode}, printed no JSON"


def judge(goal, result):
    try:
        value = goal.figure(result)
    except (LookupError, TypeError, ValueError):
        return {"goal": goal.text, "value": None, "held": False}
    held = value >= goal.limit if goal.relation == ">=" else value < goal.limit
    return {
        "goal": goal.text,
        "value": value,
        "unit": goal.unit,
        "relation": goal.relation,
        "limit": goal.limit,
        "held": held,
    }


def print_goal(name, outcome):
    word = "held" if outcome["held"] else "missed"
    if outcome["value"] is None:
        print(f"missed  {name:<10} {outcome['goal']}: the benchmark gave no such figure", flush=True)
        return
    figures = f"{outcome['value']:.3f} {outcome['unit']} (goal {outcome['relation']} {outcome['limit']:g})"
    print(f"{word:<7} {name:<10} {outcome['goal']}: {figures}", flush=True)


def run(rows, folder, quick):
    found, good = [], True
    for row in rows:
        load = os.getloadavg()[0]
        result, why = measure(row, folder, quick)
        goals = [judge(goal, result) for goal in row.goals] if result is not None else []
        for outcome in goals:
            print_goal(row.name, outcome)
        if result is None:
            print(f"failed  {row.name:<10} {why}", flush=True)
        elif not goals:
            print(f"-       {row.name:<10} {json.dumps(result)}", flush=True)
        good = good and result is not None and all(outcome["held"] for outcome in goals)
        figures = {"failure": why, "goals": goals, "result": result}
        found.append({"name": row.name, "load_before": round(load, 2), **figures})
    return found, good


def main(argv):
    parser, options = arguments(argv)
    rows = chosen(parser, table_of(options.table), options.only)
    if options.list:
        show(rows)
        return 0
    folder = options.build if options.build.is_absolute() else ROOT / options.build
    if not options.no_build:
        build(parser, folder, rows)
    target = options.json or folder / "bench.json"
    if not target.parent.is_dir():
        parser.error(f"--json: there is no folder '{target.parent}'")
    found, good = run(rows, folder, options.quick)
    machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
    text = json.dumps({"quick": options.quick, "machine": machine, "benchmarks": found}, indent=1)
    target.write_text(text + "\n")
    print(f"figures: {target}" + (" (quick: not to be quoted)" if options.quick else ""))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
