"""The version of memlab, from the installed package or, in a checkout, from Cargo.toml."""

import os


def _version():
    try:
        from importlib.metadata import version

        return version("memlab")
    except Exception:
        return _from_cargo()


def _from_cargo():
    manifest = os.path.join(os.path.dirname(__file__), "..", "..", "Cargo.toml")
    try:
        with open(manifest, encoding="utf-8") as file:
            for line in file:
                if line.startswith("version = "):
                    return line.split('"')[1]
    except OSError:
        pass
    return "0"


VERSION = _version()
