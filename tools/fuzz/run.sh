#!/bin/sh
# Run a piece of the campaign on a bare host without network: .fuzz/whl/ holds wheels for its
# Python, .fuzz/pocl.tar.xz (where it is carried) PoCL with the libraries that it needs; both go
# to a folder of their own. Arguments go to python -m tools.fuzz; the record goes to $OUT.
# tools/fuzz/carry.sh makes .fuzz/ where there is a network.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
site=${KGEN_SITE:-/tmp/kgen-fuzz-site}
out=${OUT:-$PWD}

"$python" -m pip --disable-pip-version-check -q install --no-index --no-deps --no-compile \
    --upgrade --target "$site" .fuzz/whl/*.whl
export PYTHONPATH="$site:$PWD" PYTHONDONTWRITEBYTECODE=1

pocl=$site/pocl
if [ -e .fuzz/pocl.tar.xz ] && [ ! -d "$pocl" ]; then
    mkdir -p "$pocl/vendors"
    tar -xJf .fuzz/pocl.tar.xz -C "$pocl"
    echo "$pocl/usr/lib/x86_64-linux-gnu/libpocl.so.2" >"$pocl/vendors/pocl.icd"
fi
if [ -d "$pocl" ] && [ -z "${KGEN_OPENCL_PLATFORM:-}" ]; then
    export OCL_ICD_VENDORS="$pocl/vendors" LD_LIBRARY_PATH="$pocl/usr/lib/x86_64-linux-gnu"
fi
"$python" -c 'import pyopencl as cl; print([p.version for p in cl.get_platforms()])' || true

"$python" -m tools.fuzz --out "$out/fuzz.json" "$@"
