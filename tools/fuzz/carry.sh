#!/bin/sh
# Collect in .fuzz/ what tools/fuzz/run.sh needs on a host without network beside its own Python
# (PYTHON_VERSION), numpy and C compiler: wheels, of the versions installed here, and this Debian's
# PoCL with the libraries that it needs. libxml2 and Z3, which LLVM names and PoCL never calls,
# are empty ones with the same names, to keep it small enough to send.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
version=${PYTHON_VERSION:-3.12}
limit_mib=55
pip="$python -m pip --disable-pip-version-check"
names="cgen cloudpickle constantdict islpy namedisl pcpp platformdirs pycparser pygments pymbolic \
pyopencl pytools rich markdown-it-py mdurl siphash24 threadpoolctl typing_extensions"

rm -rf .fuzz
mkdir -p .fuzz/whl
wanted=$(for name in $names; do $pip freeze | grep -i "^$name==" || echo "$name"; done)
# Sources only on the package index; pure Python, so the wheel built here runs anywhere.
# shellcheck disable=SC2086
$pip wheel -q --no-deps -w .fuzz/whl $(echo "$wanted" | grep cgen)
platforms=
for glibc in 2_28 2_27 2_24 2_17; do
    platforms="$platforms --platform manylinux_${glibc}_x86_64"
done
# shellcheck disable=SC2046,SC2086
$pip download -q --no-deps --only-binary=:all: --implementation cp --python-version "$version" \
    $platforms --platform manylinux2014_x86_64 -d .fuzz/whl $(echo "$wanted" | grep -v cgen)

lib=/usr/lib/x86_64-linux-gnu
root=$(mktemp -d)
to=$root$lib
mkdir -p "$to" "$root/usr/share/pocl"
cp -L $lib/libpocl.so.2 "$to"
cp -r $lib/pocl "$to"
cp -r /usr/share/pocl/include "$root/usr/share/pocl"
cp /usr/share/pocl/kernel-*-avx2.bc /usr/share/pocl/kernel-*-avx512.bc "$root/usr/share/pocl"
# Every Linux has the others.
ldd $lib/libpocl.so.2 | awk '{print $3}' \
    | grep -E 'libhwloc|libclang-cpp|libLLVM|libedit|libbsd|libmd\.' | xargs -I{} cp -L {} "$to"
undefined() {
    nm -D --undefined-only "$to"/libLLVM-*.so.1 "$to"/libclang-cpp.so.* | awk '{print $NF}' \
        | grep "^$1" | sort -u
}
undefined xml | awk -F@ '{v[$2] = v[$2] " " $1 ";"} END {for (k in v) print k " {" v[k] " };"}' \
    >"$root/xml.map"
undefined xml | sed 's/@.*//; s/.*/void &(void) { __builtin_trap(); }/' \
    | sed 's/void xmlFree(void).*/void *xmlFree;/' >"$root/xml.c"
undefined Z3_ | sed 's/.*/void &(void) { __builtin_trap(); }/' >"$root/z3.c"
gcc -w -shared -fPIC -Wl,-soname,libxml2.so.2 -Wl,--version-script="$root/xml.map" \
    "$root/xml.c" -o "$to/libxml2.so.2"
gcc -w -shared -fPIC -Wl,-soname,libz3.so.4 "$root/z3.c" -o "$to/libz3.so.4"
rm "$root/xml.map" "$root/xml.c" "$root/z3.c"
tar -C "$root" -cf - usr | xz --x86 --lzma2=preset=9e >.fuzz/pocl.tar.xz
rm -r "$root"

used=$(du -sm .fuzz | cut -f1)
if [ "$used" -ge "$limit_mib" ]; then
    echo ".fuzz holds $used MiB, more than $limit_mib" >&2
    exit 1
fi
echo ".fuzz: $used MiB"
