"""Run random programs, and tests of the suite, on threads that ThreadSanitizer follows.

``python -m tools.races --count 200`` runs 200 programs, and the tests in files with work-groups on
the host; it fails for a race, or a wrong result. gcc's ThreadSanitizer does not see how libgomp's
threads wait for each other, so kernels get an OpenMP of their own, ``openmp.c``, made of POSIX
threads, in which each work-group has its own thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tools.races.sanitizer import missing, watch

#: Where tests run work-groups on threads.
TESTS = tuple(f"tests/runtime/test_{name}.py" for name in ("threads", "items", "concurrency"))


def _report(what: str, arguments: Sequence[str]) -> bool:
    """Run ``python -m``, print what was found, and tell whether all went well."""
    found = watch(arguments)
    ended = f"exit status {found.status}, {len(found.races)} races reported"
    print(f"{what}:\n{found.output.strip()}\n{ended}", flush=True)
    for race in found.races:
        print(race)
    return found.status == 0 and not found.races


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.races", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="random programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="arguments for pytest")
    options = parser.parse_args()
    if missing():
        parser.error(f"there is no {missing()}")
    seeded = ["--count", str(options.count), "--seed", str(options.seed)]
    is_right = _report(f"{options.count} programs", ["tools.races.programs", *seeded])
    if options.tests:
        is_right &= _report("tests", ["pytest", "-q", "-n", "0", *options.tests])
    return int(not is_right)


if __name__ == "__main__":
    raise SystemExit(main())
