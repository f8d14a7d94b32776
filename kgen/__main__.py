"""The command line: ``python -m kgen``, which is the script ``kgen``."""

from kgen.cli import main

if __name__ == "__main__":
    main(prog_name="python -m kgen")
