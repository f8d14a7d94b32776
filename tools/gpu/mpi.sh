#!/bin/sh
# Run examples/mpi_heat.py with a rank on each GPU of a host without network that setup.sh set up:
# first with a check against one rank, then timed (benchmarks/parallel.py), for docs/parallel.md.
# The arguments are numbers of ranks: 1 and 2 by default. MPI comes from .wheels/ (see wheels.sh).
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
mpi=${KGEN_MPI:-/tmp/kgen-mpi}
[ $# -gt 0 ] || set -- 1 2
eval "most=\${$#}"

"$python" -m pip --disable-pip-version-check -q install --no-index --no-deps --no-compile \
    --ignore-installed --prefix "$mpi" .wheels/mpi4py-*.whl .wheels/mpich-*.whl
site=$(dirname "$(find "$mpi" -type d -name mpi4py)")
# this MPI, also where there is another one
export MPI4PY_MPIABI=mpich PATH="$mpi/bin:${CUDA_ROOT:-/usr/local/cuda}/bin:$PATH"
export LD_LIBRARY_PATH="$mpi/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$site:${KGEN_SITE:-/tmp/kgen-site}:$PWD" PYTHONDONTWRITEBYTECODE=1

mpiexec -n "$most" "$python" examples/mpi_heat.py --device cuda --shape 1000 900
"$python" benchmarks/parallel.py --device cuda --ranks "$@" --shape 8192 8192 --steps 100
