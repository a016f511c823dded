"""Entry point of `candle-rocm` and `python -m codegen`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; every way out is an exit code of `codegen.errors.ExitCode`."""
    from codegen.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
