#!/bin/sh
# See to an OpenCL platform: install PoCL by apt where none is there and we may.
# Never fails for want of one; the tests that need it then skip and say so.
set -eu
for icd in "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"/*.icd; do
    [ -e "$icd" ] && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends pocl-opencl-icd \
        && exit 0
fi
echo "no OpenCL platform, and PoCL cannot be installed (not root, or no apt):" >&2
echo "whatever needs OpenCL is skipped; 'apt install pocl-opencl-icd' fixes that" >&2
