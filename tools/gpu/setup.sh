#!/bin/sh
# Set up a GPU host that has no network: what .wheels/ holds (see wheels.sh) goes into a folder of
# its own, KGEN_SITE; the NVIDIA OpenCL driver is made known to the loader; pycuda is built from
# its sources where .wheels/ has no wheel of it that works here. A pycuda wheel built here is copied
# to $OUT, when that is set, so that it can be put into .wheels/ for the next host.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
site=${KGEN_SITE:-/tmp/kgen-site}
export CUDA_ROOT="${CUDA_ROOT:-/usr/local/cuda}"
pip="$python -m pip --disable-pip-version-check -q"
install="$pip install --no-index --no-deps --no-compile --upgrade --target $site"

# The host's own numpy is used.
$install .wheels/*.whl

vendors=/etc/OpenCL/vendors
if ! grep -qs nvidia "$vendors"/*.icd; then
    for library in /usr/local/nvidia/lib64/libnvidia-opencl.so.1 \
        /usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1; do
        if [ -e "$library" ]; then
            mkdir -p "$vendors"
            echo "$library" >"$vendors/nvidia.icd"
            break
        fi
    done
fi

if ! PYTHONPATH=$site "$python" -c 'import pycuda.driver' 2>/dev/null; then
    build=$(mktemp -d)
    tar -xzf .wheels/pycuda-*.tar.gz -C "$build" --strip-components=1
    (cd "$build" && LDFLAGS="-L$CUDA_ROOT/lib64/stubs" \
        $pip wheel --no-index --no-deps --no-build-isolation -w wheel .)
    $install "$build"/wheel/pycuda-*.whl
    [ -z "${OUT:-}" ] || cp "$build"/wheel/pycuda-*.whl "$OUT"
    rm -rf "$build"
fi

PYTHONPATH=$site "$python" - <<'PROBE'
import pyopencl
import pycuda.driver

pycuda.driver.init()
print("OpenCL:", *(platform.name for platform in pyopencl.get_platforms()), sep="\n  ")
print("CUDA:", *(pycuda.driver.Device(i).name() for i in range(pycuda.driver.Device.count())),
      sep="\n  ")
PROBE
