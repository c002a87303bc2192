"""The console command ``sparsegp``: the command line of the engine, from the extension module."""

import sys

from . import _sparsegp


def main() -> int:
    """Run the command line with the arguments of this process."""
    return _sparsegp.main(["sparsegp", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
