#!/bin/sh
# Run the tests that need a device on NVIDIA's OpenCL and on CUDA, on a host that setup.sh set up,
# and print the table of results for docs/gpu.md; it goes to $OUT/gpu.md, too, when that is set.
# Arguments go to pytest. Fails when a test fails or the device is missing.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
out=${OUT:-$(mktemp -d)}
export PYTHONPATH="${KGEN_SITE:-/tmp/kgen-site}:$PWD" PYTHONDONTWRITEBYTECODE=1
export PATH="${CUDA_ROOT:-/usr/local/cuda}/bin:$PATH"
# exported programs are compiled with the toolkit's headers and libraries of OpenCL and CUDA
toolkit=${CUDA_ROOT:-/usr/local/cuda}
export CPATH="$toolkit/include${CPATH:+:$CPATH}"
export LIBRARY_PATH="$toolkit/lib64:$toolkit/lib64/stubs${LIBRARY_PATH:+:$LIBRARY_PATH}"
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$toolkit/lib64"
export KGEN_OPENCL_PLATFORM=NVIDIA KGEN_REQUIRE=opencl,cuda

status=0
for backend in opencl cuda; do
    "$python" -m pytest -m "$backend" -p no:cacheprovider --junitxml="$out/$backend.xml" "$@" \
        || status=1
done
"$python" tools/gpu/report.py "$out/opencl.xml" "$out/cuda.xml" | tee "$out/gpu.md"
exit $status
