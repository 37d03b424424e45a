"""`python -m memlab`: `run` is done here, everything else by the analyzer."""

import sys


def _main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from memlab.run import main

        return main(arguments[1:])
    from memlab._binary import become

    return become(arguments)


if __name__ == "__main__":
    sys.exit(_main())
