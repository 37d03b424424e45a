"""Finds the analyzer, a program in the same wheel, and becomes it.

Owns the search: `$MEMLAB_BINARY`, the scripts folder of this Python, the path, a checkout's target folder.
"""

import os
import shutil
import sys
import sysconfig

_NAME = "memlab.exe" if os.name == "nt" else "memlab"


def find():
    """Path of the analyzer, or None."""
    named = os.environ.get("MEMLAB_BINARY")
    if named:
        return named
    here = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.join(here, "..", "..", "target")
    folders = [sysconfig.get_path("scripts"), os.path.join(os.path.dirname(os.path.dirname(here)), "bin")]
    try:
        folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    except KeyError:
        pass
    folders += [os.path.dirname(sys.executable)]
    found = [os.path.join(folder, _NAME) for folder in folders if folder]
    found += [path for path in [shutil.which(_NAME)] if path]
    found += [os.path.join(checkout, build, _NAME) for build in ("release", "debug")]
    return next((path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def become(arguments):
    """Replaces this process by the analyzer. Returns an exit status only if that fails."""
    path = find()
    if path is None:
        sys.stderr.write("memlab: the analyzer is not installed beside this package; set MEMLAB_BINARY\n")
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.isfile(os.path.join(here, "libmemlab_inject.so")):
        os.environ.setdefault("MEMLAB_INJECT", here)  # for `memlab record`
    if os.name == "nt":
        import subprocess

        return subprocess.call([path, *arguments])
    os.execv(path, [path, *arguments])
    return 2
