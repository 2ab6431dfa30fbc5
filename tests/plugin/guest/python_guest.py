"""What Python programs do to their processes, with a gate and its page in the parent.

    python_guest.py           everything below; prints one "ok NAME" a line
    python_guest.py crash     enables faulthandler, starts a gate, crashes

The gate is used through ctypes, as a preload offers it. Without the plugin the same lines are printed,
since nothing here may depend on it; "gate" lines go to standard error.
"""
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import urllib.request

PLUGIN = ctypes.CDLL(None)


def gate():
    """A gate with its page, or None where no plugin answers."""
    if not hasattr(PLUGIN, "stepgate_gate_create"):
        return None
    handle = ctypes.c_void_p()
    status = PLUGIN.stepgate_gate_create(None, ctypes.byref(handle))
    assert status == 0, status
    return handle


def page():
    url = ctypes.create_string_buffer(200)
    assert PLUGIN.stepgate_metrics_url(url, ctypes.c_size_t(200)) == 0
    with urllib.request.urlopen(url.value.decode(), timeout=30) as answer:
        return answer.read().decode()


def ok(name, condition=True):
    print("ok" if condition else "not ok", name, flush=True)


def square(x):
    return x * x, os.getpid()


def pool(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as workers:
        results = workers.map(square, range(8))
    ok("pool " + method, [r[0] for r in results] == [x * x for x in range(8)] and results[0][1] != os.getpid())


def queue_and_process(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=queue.put, args=("from the child",))
    worker.start()
    ok("queue " + method, queue.get(timeout=60) == "from the child")
    worker.join(60)
    ok("exit " + method, worker.exitcode == 0)


def shells():
    ok("shell", subprocess.run("echo one | cat", shell=True, capture_output=True, check=True).stdout == b"one\n")
    broken = subprocess.run(
        ["bash", "-c", "yes | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}"], capture_output=True, check=True)
    ok("broken pipe", (broken.stdout, broken.stderr) == (b"141\n", b""))
    ok("status", subprocess.run("exit 9", shell=True, check=False).returncode == 9)
    ok("os.system", os.system("true") == 0)
    many = [subprocess.Popen(["true"]) for _ in range(10)]
    ok("many", [p.wait() for p in many] == [0] * 10)
    child = os.fork()
    if child == 0:
        os._exit(0)
    ok("os.fork", os.waitpid(child, 0)[1] == 0)


def signals():
    ok("SIGPIPE is ignored, as Python sets it", signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)
    ok("SIGINT is Python's", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    arrived = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: arrived.set())
    os.kill(os.getpid(), signal.SIGUSR1)
    ok("a handler runs", arrived.wait(30))
    ok("faulthandler is enabled", faulthandler.is_enabled())


def main():
    faulthandler.enable()
    handle = gate()
    if sys.argv[1:] == ["crash"]:
        faulthandler._sigsegv()
    for method in ("fork", "spawn", "forkserver"):
        pool(method)
        queue_and_process(method)
    shells()
    signals()
    if handle is not None:
        print("gate scraped", "stepgate_build_info" in page(), file=sys.stderr)
        print("gate destroyed", PLUGIN.stepgate_gate_destroy(handle) == 0, file=sys.stderr)


if __name__ == "__main__":
    main()
