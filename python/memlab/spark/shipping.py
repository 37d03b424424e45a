"""Brings memlab to executors that do not have it.

Owns what is sent: this package as a zip, and the program. Executors still need PyArrow.
"""

import atexit
import os
import shutil
import tempfile
import zipfile

from .. import _binary
from .program import SHIPPED


def ship(spark, binary=None):
    """Sends the memlab package and its program to the executors of `spark`, for the life of its context.

    `binary` is the program to send; else the one installed beside this package. It has to run there: the same
    operating system and processor. Raises `FileNotFoundError` where there is none.
    """
    program = binary or _binary.find()
    if program is None or not os.path.isfile(program):
        raise FileNotFoundError(f"there is no memlab program to send ({program}): install the wheel, or name binary=")
    # Spark reads these files again whenever an executor comes, so they stay until this process ends.
    folder = tempfile.mkdtemp(prefix="memlab-ship-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Spark names what it sends after the file.
    copy = os.path.join(folder, SHIPPED)
    shutil.copy(program, copy)
    spark.sparkContext.addFile(copy)
    archive = os.path.join(folder, "memlab-package.zip")
    _zip(archive)
    spark.sparkContext.addPyFile(archive)


def _zip(target):
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    root = os.path.dirname(package)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, folders, files in os.walk(package):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    archive.write(path, os.path.relpath(path, root))
