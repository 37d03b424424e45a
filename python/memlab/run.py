"""`memlab run`: records a program without a change to it.

Owns the command line of `run` and the way a script or module is executed: as `python` itself would, in
`__main__`, with its own `sys.argv`. The analyzer's commands are the binary's.
"""

import argparse
import os
import runpy
import sys

from . import driver, session
from .options import DEFAULT_PATH, file_name

_ABOUT = "Record a Python program: every event of the CUDA allocator goes to a trace."
_AFTER = """examples:
  memlab run train.py --epochs 3
  memlab run -o run-{rank}.msgpack -m package.train
  torchrun --nproc-per-node 8 -m memlab run train.py
  memlab run --driver train.py

Then: memlab analyze memlab-0.msgpack"""


def parser():
    """The arguments of `memlab run`; what follows the program's name is the program's."""
    args = argparse.ArgumentParser("memlab run", description=_ABOUT, epilog=_AFTER, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("-o", "--output", default=DEFAULT_PATH, metavar="FILE", help="where to write; {rank}, {local_rank} and {pid} are replaced [default: %(default)s]")
    args.add_argument("-m", "--module", action="store_true", help="PROGRAM is a module, as with python -m")
    args.add_argument("--stacks", choices=("python", "all"), default="python", help="`all`: C++ frames too")
    args.add_argument("--context", choices=("all", "alloc", "state"), default="all", help="`alloc`: no stacks at frees, cheaper")
    args.add_argument("--no-modules", action="store_true", help="do not label allocations with the running module")
    args.add_argument("--no-census", action="store_true", help="do not name tensors at an OOM and at the end")
    args.add_argument("--no-holders", action="store_true", help="do not look for what holds tensors")
    args.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="read events at least this often [default: %(default)s]")
    args.add_argument("--max-events", type=int, default=10_000, metavar="N", help="and when this many wait [default: %(default)s]")
    args.add_argument("--driver", action="store_true", help="record the driver's calls too, in a file beside (NAME.driver.msgpack)")
    args.add_argument("--host", action="store_true", help="record the command line and the host's name")
    args.add_argument("program", metavar="PROGRAM", help="a script, or with -m a module")
    args.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    return args


def main(arguments):
    """Runs the program; its exit status and exceptions are its own."""
    args = parser().parse_args(arguments)
    options = dict(
        stacks=args.stacks,
        context=args.context,
        modules=not args.no_modules,
        census=not args.no_census,
        holders=not args.no_holders,
        interval=args.interval,
        max_events=args.max_events,
        host=args.host,
    )
    sys.argv = [args.program, *args.arguments]
    if args.driver:
        driver.prepare(file_name(args.output))
    session.start(args.output, session.parse(options))
    # No `finally`: an exception goes to sys.excepthook first, while its traceback still holds the tensors, and
    # the end of the process closes the file.
    if args.module:
        sys.path.insert(0, os.getcwd()) if "" not in sys.path else None
        runpy.run_module(args.program, run_name="__main__", alter_sys=True)
    else:
        _run_script(args.program)
    return 0


def _run_script(path):
    """Like `python path`: in the real `__main__`, so that its globals are found and pickled under that name."""
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    except OSError as error:
        sys.stderr.write(f"memlab: cannot read {path}: {error.strerror or error}\n")
        raise SystemExit(2) from None
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    main_module = sys.modules["__main__"]
    names = main_module.__dict__
    for name in [name for name in names if not (name.startswith("__") and name.endswith("__"))]:
        del names[name]
    names.update(__file__=path, __spec__=None, __package__=None, __doc__=None, __cached__=None)
    exec(code, names)
