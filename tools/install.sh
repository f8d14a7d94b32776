#!/bin/sh
# Make a virtual environment and install kgen in it: tools/install.sh VENV EXTRA VERSIONS
# EXTRA is one of the extras of pyproject.toml, or 'base' for none. VERSIONS is 'newest', or 'lowest'
# for the lowest ones that pyproject.toml allows.
# Where python3 has no venv module (a bare Debian), it is installed by apt, if we may.
set -eu
venv=$1
extra=$2
versions=$3
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "kgen needs Python 3.11 or newer; set PYTHON to one ('$python' is $("$python" -V 2>&1))" >&2
    exit 1
}
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-venv
    else
        echo "'$python' has no venv module; install it (Debian: apt install python3-venv)" >&2
        exit 1
    fi
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# uv makes environments without pip
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
[ "$extra" = base ] && spec=. || spec=".[$extra]"
pins=$venv/lowest.txt
: >"$pins"
[ "$versions" = newest ] || sed -nE 's/^ +"([a-z0-9-]+)>=([0-9.]+)".*/\1==\2/p' pyproject.toml >"$pins"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -c "$pins" -e "$spec"
