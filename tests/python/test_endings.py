"""How a job may end: killed, terminated, asked, failed, forked. Each in a process of its own."""

import os
import signal
import time

import pytest
from decode import Trace

posix = pytest.mark.skipif(os.name != "posix", reason="signals and fork are POSIX's")

#: Records `cnn` in slices of 20; how it goes on is the test's.
BEGIN = """
import os, signal, sys, threading, time
from memlab import session
from standin import StandIn, load
path = sys.argv[1]
backend = StandIn(load("cnn"))
def start(**options):
    session.start(path, session.parse({"max_events": 20, "interval": 0.05, **options}), backend)
def work(count=None, until=0, pause=0.0):
    while backend.left > until and (count is None or count > 0):
        backend.advance(20)
        if session.current():
            session.current().recorder.at_step()
        time.sleep(pause)
        count = None if count is None else count - 1
def ready():
    print("ready", flush=True)
"""


def wait_for(process, word="ready"):
    line = process.stdout.readline().strip()
    assert line == word, (line, process.stderr.read())


def end(process, number):
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@posix
def test_a_killed_job_leaves_all_but_the_last_interval(python, tmp_path, analyzer):
    path = tmp_path / "trace.msgpack"
    process = python(BEGIN + "start(); work(until=80); time.sleep(0.6); ready(); time.sleep(60)", path)
    wait_for(process)
    code, _, _ = end(process, signal.SIGKILL)
    assert code == -signal.SIGKILL
    trace = Trace(path)
    assert not trace.whole and trace.rest == b""
    assert len(trace.events[0]) == 320  # whole slices of 20, the last one that is followed by at least 80
    assert "320" in analyzer("info", path)


@posix
def test_sigterm_writes_everything_and_ends_the_job_as_before(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    process = python(BEGIN + "start(max_events=10**9, interval=1000); work(); ready(); time.sleep(60)", path)
    wait_for(process)
    code, _, err = end(process, signal.SIGTERM)
    assert code == -signal.SIGTERM and err == ""
    trace = Trace(path)
    assert trace.whole and trace.trailer["clean"] and len(trace.events[0]) == 382
    assert trace.states[-1]["events"] == len(trace.events[0]) > 0
    assert any(mark[1] == "signal SIGTERM" for mark in trace.marks)


@posix
def test_the_previous_handler_of_sigterm_is_called_after(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    handler = """
def mine(number, frame):
    print("size", os.path.getsize(path) > 3000, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, mine)
"""
    process = python(BEGIN + handler + "start(max_events=10**9, interval=1000); work(); ready(); time.sleep(60)", path)
    wait_for(process)
    code, out, _ = end(process, signal.SIGTERM)
    assert (code, out.strip()) == (7, "size True")
    assert Trace(path).whole


@posix
def test_a_signal_while_memlab_writes_does_not_deadlock(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    slow = """
snapshot = backend.snapshot
def slow():
    ready()
    time.sleep(0.7)
    return snapshot()
backend.snapshot = slow
"""
    process = python(BEGIN + slow + "start(max_events=10**9, interval=1000); work(3); session.current().recorder.read()", path)
    wait_for(process)
    code, _, _ = end(process, signal.SIGTERM)
    assert code == -signal.SIGTERM
    assert Trace(path).whole


@posix
def test_sigusr1_writes_the_state_and_the_job_goes_on(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    script = BEGIN + "start(max_events=10**9, interval=1000); work(5); ready(); sys.stdin.readline(); work(); print('done')"
    import subprocess

    process = python(script, path, stdin=subprocess.PIPE)
    wait_for(process)
    process.send_signal(signal.SIGUSR1)
    deadline = time.time() + 10
    while time.time() < deadline and len(Trace(path).states) < 2:
        time.sleep(0.05)
    before = Trace(path)
    assert len(before.states) == 2 and len(before.events[0]) == 100
    out, _ = process.communicate("go on\n", timeout=30)
    assert process.returncode == 0 and "done" in out
    trace = Trace(path)
    assert trace.whole and len(trace.events[0]) == 382 and len(trace.states) == 3  # before the first event, now, at the end


@posix
def test_a_handler_of_the_jobs_own_for_sigusr1_is_left_alone(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    own = "signal.signal(signal.SIGUSR1, lambda *_: print('mine', flush=True))\n"
    process = python(BEGIN + own + "start(); ready(); time.sleep(0.5); time.sleep(0.5)", path)
    wait_for(process)
    code, out, _ = end(process, signal.SIGUSR1)
    assert (code, out.strip()) == (0, "mine")


@posix
def test_a_forked_child_writes_nothing(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    fork = """
start(max_events=10**9, interval=1000)
work(5)
child = os.fork()
if child == 0:
    import memlab
    memlab.mark("child"); memlab.step(); work(3); memlab.stop(); sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
work()
"""
    process = python(BEGIN + fork, path)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0 and err == "", err
    trace = Trace(path)
    assert trace.whole and len(trace.events[0]) == 382
    assert not any(mark[1] == "child" for mark in trace.marks)


@posix
def test_a_forked_child_dies_of_sigterm_as_ever(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    fork = """
start()
child = os.fork()
if child == 0:
    time.sleep(60)
time.sleep(0.2)
os.kill(child, signal.SIGTERM)
print(os.waitpid(child, 0)[1])
"""
    process = python(BEGIN + fork, path)
    out, _ = process.communicate(timeout=30)
    assert out.strip() == str(int(signal.SIGTERM))


def test_an_unhandled_exception_writes_the_state_and_shows_as_ever(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    process = python(BEGIN + "start(max_events=10**9, interval=1000); work(5); raise KeyError('mine')", path)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err.splitlines()[-1] == "KeyError: 'mine'" and "memlab" not in err
    trace = Trace(path)
    assert trace.whole and any(mark[1] == "exception: KeyError" for mark in trace.marks)


def test_an_exception_in_a_thread_is_noted(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    thread = "start(); t = threading.Thread(target=lambda: 1 // 0); t.start(); t.join()"
    process = python(BEGIN + thread, path)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0 and "ZeroDivisionError" in err
    assert any(mark[1] == "exception: ZeroDivisionError" for mark in Trace(path).marks)


def test_the_end_of_the_program_closes_the_file(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    process = python(BEGIN + "start(); work()", path)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0 and err == ""
    trace = Trace(path)
    assert trace.whole and len(trace.events[0]) == 382 and trace.process["other"]["recorder"]["reads"] > 1


def test_an_oom_writes_the_state_and_recording_goes_on(tmp_path):
    from memlab import session
    from standin import StandIn, load

    path, backend = tmp_path / "trace.msgpack", StandIn(load("oom"))
    session.start(path, session.parse(dict(max_events=10**9, interval=1000.0)), backend)
    backend.advance(3000)
    assert backend.observer(0, 1 << 30, 3 << 30, 1 << 20) is None
    at_oom = Trace(path)
    assert len(at_oom.events[0]) == 3000 and at_oom.states[-1]["events"] == 3000
    backend.advance()
    session.stop()
    trace = Trace(path)
    assert trace.whole and len(trace.events[0]) == 6041
    assert any(mark[1].startswith("out of memory on device 0") for mark in trace.marks)


def test_a_job_that_never_uses_cuda_records_nothing(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    script = "import memlab, sys; memlab.start(sys.argv[1]); memlab.mark('a'); print('fine')"
    process = python(script, path)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out.strip(), err) == (0, "fine", "")
    assert Trace(path).whole


def test_run_executes_scripts_and_modules_as_python_does(python, tmp_path):
    script = tmp_path / "job.py"
    script.write_text("import sys; print(__name__, sys.argv, 'memlab' in sys.modules, sys.modules['__main__'].here)\n".replace("print(", "here = 5\nprint("))
    trace = tmp_path / "t-{rank}.msgpack"
    code = "import sys; from memlab.run import main; sys.exit(main(sys.argv[1:]))"
    process = python(code, "-o", trace, script, "--flag", "-o", "x")
    out, err = process.communicate(timeout=30)
    assert out.strip() == f"__main__ ['{script}', '--flag', '-o', 'x'] True 5", err
    assert Trace(tmp_path / "t-0.msgpack").whole
    process = python(code, "-o", trace, "-m", "job", "y", cwd=tmp_path)
    out, err = process.communicate(timeout=30)
    assert out.startswith("__main__ [") and "'y']" in out, err
    process = python(code, "-o", trace, tmp_path / "missing.py")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2 and "cannot read" in err


def test_ranks_and_children_get_files_of_their_own(python, tmp_path):
    code = "import sys; from memlab.options import file_name; print(file_name(sys.argv[1]))"

    def name(path, **env):
        return python(code, path, env=env).communicate(timeout=30)[0].strip()

    torchrun = dict(RANK="3", LOCAL_RANK="1", WORLD_SIZE="8")
    assert name("a-{rank}.msgpack", **torchrun) == "a-3.msgpack"
    assert name("a.msgpack", **torchrun) == "a-3.msgpack"
    assert name("a-{local_rank}.msgpack", **torchrun) == "a-1.msgpack"
    assert name("a.msgpack") == "a.msgpack"


def test_place_in_a_distributed_job_is_in_the_trace(python, tmp_path):
    script = "import memlab, sys; memlab.start(sys.argv[1])"
    process = python(script, tmp_path / "t-{rank}.msgpack", env=dict(RANK="3", LOCAL_RANK="1", WORLD_SIZE="8"))
    process.communicate(timeout=30)
    process_facts = Trace(tmp_path / "t-3.msgpack").process
    assert [process_facts[key] for key in ("rank", "local_rank", "world_size")] == [3, 1, 8]
    assert "command" not in process_facts["other"] and "host" not in process_facts["other"]




def test_spawned_workers_are_said_once_to_be_left_out(python, tmp_path):
    path = tmp_path / "trace.msgpack"
    workers = """
import multiprocessing
spawn = multiprocessing.get_context("spawn")
workers = [spawn.Process(target=os.getpid) for _ in range(2)]
start()
for worker in workers: worker.start()
for worker in workers: worker.join()
work(); session.stop(); ready()
"""
    process = python(BEGIN + workers, path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "ready" in out
    assert err.count("spawns are not recorded") == 1, err
    assert Trace(path).whole
