"""PyTorch's unscale_ + clip_grad_norm_ and _foreach_norm beside the plugin's step, over the same tensors.

One process, one stream, by turns. Host synchronisations are counted by torch's profiler.
usage: torch_baseline.py --probe libprobe.so --image FATBIN --results FILE [--small]
"""

import argparse
import ctypes
import statistics
import sys
import time

PART = "torch"
FP32 = 0


class Results:
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.failed = False

    def line(self, state, name, value="", goal="", note=""):
        fields = [PART, name, state, value, goal, note]
        text = "\t".join(str(field).replace("\t", " ").replace("\n", " ") for field in fields)
        self.file.write(text + "\n")
        self.file.flush()

    def at_most(self, name, value, goal, note=""):
        self.line("pass" if value <= goal else "miss", name, f"{value:.4g}", f"{goal:.4g}", note)

    def figure(self, name, value, unit=""):
        self.line("figure", name, f"{value:.4g}", "", unit)

    def check(self, name, problem=""):
        self.failed = self.failed or bool(problem)
        self.line("fail" if problem else "pass", name, "", "", problem)


def load_probe(path):
    lib = ctypes.CDLL(path)
    lib.probe_open.restype = ctypes.c_void_p
    lib.probe_open.argtypes = [ctypes.c_char_p]
    lib.probe_stream.restype = ctypes.c_void_p
    lib.probe_stream.argtypes = [ctypes.c_void_p]
    lib.probe_step.restype = ctypes.c_void_p
    lib.probe_step.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_uint64,
    ]
    lib.probe_step_close.argtypes = [ctypes.c_void_p]
    lib.probe_close.argtypes = [ctypes.c_void_p]
    lib.probe_norm.restype = ctypes.c_double
    for function in (lib.probe_run, lib.probe_scan, lib.probe_norm):
        function.argtypes = [ctypes.c_void_p]
    return lib


class Case:
    """Some parameters with gradients, the scaler and optimizer of a torch job, and our step over the same."""

    def __init__(self, torch, lib, probe, sizes):
        self.torch = torch
        self.lib = lib
        self.parameters = []
        for size in sizes:
            parameter = torch.nn.Parameter(torch.zeros(size, device="cuda"))
            parameter.grad = torch.randn(size, device="cuda")
            self.parameters.append(parameter)
        self.grads = [parameter.grad for parameter in self.parameters]
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.0)
        # A scale of 1 leaves the values as they are, however often they are unscaled.
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1.0, growth_interval=10**9)
        self.scaler.scale(torch.ones((), device="cuda"))
        n = len(sizes)
        pointers = (ctypes.c_uint64 * n)(*[grad.data_ptr() for grad in self.grads])
        counts = (ctypes.c_uint64 * n)(*sizes)
        self.step = lib.probe_step(probe, FP32, pointers, counts, n)

    def close(self):
        self.torch.cuda.synchronize()
        self.lib.probe_step_close(self.step)

    def theirs(self):
        """A job's whole step: scaler.step() looks at found_inf on the host before it runs the optimizer."""
        self.scaler.unscale_(self.optimizer)
        self.torch.nn.utils.clip_grad_norm_(self.parameters, 1e30, foreach=True)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def unscale_and_clip(self):
        """Without the host's look at found_inf: the two calls that the goal names."""
        self.scaler.unscale_(self.optimizer)
        self.torch.nn.utils.clip_grad_norm_(self.parameters, 1e30, foreach=True)
        self.scaler._per_optimizer_states.clear()

    def foreach_norm(self):
        self.torch._foreach_norm(self.grads)

    def ours(self):
        if self.lib.probe_run(self.step) != 1:
            raise RuntimeError("the plugin's step was refused")

    def our_scan(self):
        if self.lib.probe_scan(self.step) != 1:
            raise RuntimeError("the plugin's scan was refused")


def times_of(torch, functions, repetitions):
    """Medians in microseconds by turns: of the device, and of the wall clock with a wait at the end."""
    flush = torch.empty(128 << 20, dtype=torch.int32, device="cuda")
    device = [[] for _ in functions]
    wall = [[] for _ in functions]
    for repetition in range(-3, repetitions):
        for i, function in enumerate(functions):
            flush.zero_()
            start = torch.cuda.Event(enable_timing=True)
            stop = torch.cuda.Event(enable_timing=True)
            start.record()
            function()
            stop.record()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            function()
            torch.cuda.synchronize()
            if repetition >= 0:
                device[i].append(1000.0 * start.elapsed_time(stop))
                wall[i].append(1e6 * (time.perf_counter() - begin))
    return [statistics.median(t) for t in device], [statistics.median(t) for t in wall]


WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize")


def counts_of(torch, function):
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        function()
    counts = {event.key: event.count for event in watched.key_averages()}
    synchronisations = sum(counts.get(name, 0) for name in WAITS)
    copies = sum(count for name, count in counts.items() if "Memcpy DtoH" in name)
    return synchronisations, copies, counts.get("aten::_local_scalar_dense", 0)


def waits_of(torch, function):
    """Calls in which the host waits for the device: synchronisations, copies to the host, items."""
    # The profiler waits for the device itself; what it does around nothing is no part of the function.
    idle = counts_of(torch, lambda: None)
    return tuple(max(0, a - b) for a, b in zip(counts_of(torch, function), idle))


def compare(torch, results, case, name, goal, by_wall):
    # fp64 on the host side of the comparison, so that torch's own fp32 norm does not set the limit.
    case.ours()
    ours = case.lib.probe_norm(case.step)
    # The plugin's gate scales by 2^16.
    theirs = float(sum(grad.double().square().sum() for grad in case.grads).sqrt()) / 65536.0
    wrong = abs(ours / theirs - 1.0)
    results.check(f"{name}: the norm is torch's in fp64", "" if wrong < 1e-6 else f"relative error {wrong:.2e}")
    functions = [case.ours, case.unscale_and_clip, case.theirs, case.our_scan, case.foreach_norm]
    device, wall = times_of(torch, functions, 20)
    pair = wall if by_wall else device
    kind = "wall time" if by_wall else "GPU time"
    note = f"ours {pair[0]:.0f} us, theirs {pair[1]:.0f} us"
    results.at_most(f"{name}: {kind} per step, deferred / unscale_ + clip_grad_norm_", pair[0] / pair[1], goal, note)
    note = f"ours {device[3]:.0f} us, theirs {device[4]:.0f} us"
    results.at_most(f"{name}: scan / torch._foreach_norm", device[3] / device[4], 1.0, note)
    for who, function in (("plugin", case.ours), ("unscale_ + clip", case.unscale_and_clip), ("with scaler.step", case.theirs)):
        synchronisations, copies, items = waits_of(torch, function)
        note = f"{synchronisations} synchronisations, {copies} copies to the host, {items} items"
        waits = max(synchronisations, copies, items)
        if who == "plugin":
            results.at_most(f"{name}: host waits per step, {who}", waits, 0, note)
        else:
            results.figure(f"{name}: host waits per step, {who}", waits, note)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    results = Results(options.results)
    import torch

    if not torch.cuda.is_available():
        results.line("skip", "PyTorch", note="this torch sees no GPU")
        return 0
    results.line("figure", "version of PyTorch", torch.__version__)
    torch.zeros(1, device="cuda")
    lib = load_probe(options.probe)
    probe = lib.probe_open(options.image.encode())
    with torch.cuda.stream(torch.cuda.ExternalStream(lib.probe_stream(probe))):
        unit = 1 << 12 if options.small else 1 << 24
        few = Case(torch, lib, probe, [unit] * 8)
        compare(torch, results, few, "8 tensors of 64 MiB, fp32", 0.25, by_wall=False)
        few.close()
        many = Case(torch, lib, probe, [1000 + i % 500 for i in range(20 if options.small else 2000)])
        compare(torch, results, many, "2,000 tensors, fp32", 0.05, by_wall=True)
        many.close()
    torch.cuda.synchronize()
    lib.probe_close(probe)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
