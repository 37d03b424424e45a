"""What the checks of exported files share: running memlab, and looking for fields that a schema does not know."""

import json
import os
import pathlib
import subprocess
import sys

from google.protobuf import descriptor
from google.protobuf.unknown_fields import UnknownFieldSet


def memlab(*arguments):
    """Standard output of the program."""
    return subprocess.run([os.environ["MEMLAB"], *arguments], check=True, stdout=subprocess.PIPE).stdout


def devices(trace):
    """The devices of memlab's own report on `trace`: the right values."""
    report = json.loads(memlab("analyze", trace, "--json", "--top", "0"))
    return report["traces"][0]["devices"]


def exported(trace, form, folder):
    """The bytes of `trace` in the format `form`."""
    path = pathlib.Path(folder) / f"{pathlib.Path(trace).name}.{form}"
    memlab("export", trace, "--format", form, "--output", str(path))
    return path.read_bytes()


def all_known(message):
    """Fails if `message`, or one within it, has a field that the schema does not know."""
    unknown = UnknownFieldSet(message)
    assert len(unknown) == 0, f"{message.DESCRIPTOR.name} has unknown field {unknown[0].field_number}"
    for field, value in message.ListFields():
        if field.type == descriptor.FieldDescriptor.TYPE_MESSAGE:
            for inner in value if isinstance(value, list) or hasattr(value, "add") else [value]:
                all_known(inner)


def traces():
    """Paths given on the command line, or a failure: a check of nothing must not pass."""
    assert len(sys.argv) > 2, "usage: check FOLDER TRACE..."
    return sys.argv[1], sys.argv[2:]
