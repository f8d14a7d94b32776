#!/bin/sh
# Collect in .wheels/ what a GPU host without network needs beside its own Python and numpy:
# wheels for its Python (PYTHON_VERSION), and pycuda's sources, which tools/gpu/setup.sh builds
# there (a pycuda wheel that was built there before may be put beside them, and is then used).
# Run it where there is a network. .wheels/ is ignored by git; it must stay small enough to send.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
version=${PYTHON_VERSION:-3.12}
limit_mib=50
pip="$python -m pip --disable-pip-version-check"

mkdir -p .wheels
find .wheels -name '*.whl' ! -name 'pycuda-*' -delete

# Sources only on the package index; pure Python, so the wheel built here runs anywhere.
$pip wheel -q --no-deps -w .wheels cgen genpy
# No newer glibc than the oldest host's, 2.28. pip matches each name exactly.
platforms=
for glibc in 2_28 2_27 2_24 2_17; do
    platforms="$platforms --platform manylinux_${glibc}_x86_64"
done
# shellcheck disable=SC2086
$pip download -q --only-binary=:all: --implementation cp --python-version "$version" \
    $platforms --platform manylinux2014_x86_64 --platform manylinux1_x86_64 \
    --find-links .wheels -d .wheels \
    cgen click cloudpickle constantdict fparser genpy hypothesis islpy mako mpi4py mpich namedisl pcpp \
    ml_dtypes platformdirs pycparser pygments pymbolic pyopencl pytest pytest-xdist pytools rich siphash24 \
    threadpoolctl
rm -f .wheels/numpy-*.whl  # large, and the host has its own

if ! ls .wheels/pycuda-* >/dev/null 2>&1; then
    "$python" tools/gpu/fetch_sdist.py pycuda .wheels
fi

ls -l .wheels
used=$(du -sm .wheels | cut -f1)
if [ "$used" -ge "$limit_mib" ]; then
    echo ".wheels holds $used MiB, more than $limit_mib" >&2
    exit 1
fi
echo ".wheels: $used MiB"
