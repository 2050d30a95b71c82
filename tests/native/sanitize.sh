#!/bin/sh
# Builds the native kernels with the address and undefined-behaviour sanitizers into a folder of their own, and runs the
# tests that compare both routes on that build. Needs GCC or Clang; called by `make sanitize`.
set -eu
python=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r src setup.py pyproject.toml README.md LICENSE "$folder"
rm -f "$folder"/src/calipers/kernels/_native*
flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1"
python_path=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
(cd "$folder" && CALIPERS_SANITIZE="$flags" "$python_path" setup.py --quiet build_ext --inplace >/dev/null)
# The C++ library must be there when the sanitizer starts, or it cannot follow exceptions.
runtime="$(${CXX:-c++} -print-file-name=libasan.so) $(${CXX:-c++} -print-file-name=libstdc++.so)"
# Python itself keeps memory until the end, which is not a leak of ours.
LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$folder/src" PYTHONMALLOC=malloc \
    "$python_path" -m pytest -p no:cacheprovider -q tests/parity/test_routes.py tests/native/test_extremes.py tests/native/test_lengths.py tests/native/test_coco_records.py tests/native/test_voxels.py tests/native/test_pairwise.py tests/native/test_constructors.py tests/fuzz/test_fuzz.py tests/kernels "$@"
echo "sanitizers: clean"
