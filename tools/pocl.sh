#!/bin/sh
# See to an OpenCL platform, and to what C programs that use it are compiled with: install PoCL,
# OpenCL's headers and its loader by apt where they are missing and we may.
# Never fails for want of them; the tests that need them then skip and say so.
set -eu
missing=pocl-opencl-icd
for icd in "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"/*.icd; do
    [ -e "$icd" ] && missing=
done
if ! printf '#include <CL/cl.h>\nint main(void) { return clReleaseEvent(0); }\n' |
    cc -DCL_TARGET_OPENCL_VERSION=120 -x c - -lOpenCL -o /dev/null 2>/dev/null; then
    missing="$missing opencl-c-headers ocl-icd-opencl-dev"
fi
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q
    # $missing is a list of names
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing \
        && exit 0
fi
echo "missing, and cannot be installed (not root, or no apt): $missing" >&2
echo "whatever needs OpenCL is skipped; 'apt install $missing' fixes that" >&2
