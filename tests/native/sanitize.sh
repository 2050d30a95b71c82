#!/bin/sh
# Builds the native kernels with the address and undefined-behaviour sanitizers into a folder of their own, and runs on
# that build everything that reaches them. Needs GCC or Clang; called by `make sanitize`.
#
# Sanitizers make Python five to ten times slower and see only C++, so the tests are chosen: both routes, the kernels
# called directly, the public constructors, and of the fuzz targets those whose readers hand data to a kernel (COCO
# records, run lengths, label images, tables). The other readers are Python alone; `make test` and `make fuzz` attack them.
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
# Python itself keeps memory until the end, which is not a leak of ours. Its millions of small objects need no stack of
# where each was allocated: one frame says which buffer it is, and more would take half of the time.
export ASAN_OPTIONS=detect_leaks=0:malloc_context_size=1:quarantine_size_mb=64

sanitized() {
    LD_PRELOAD="$runtime" PYTHONPATH="$folder/src" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 \
        "$python_path" -m pytest -p no:cacheprovider -q "$@"
}

sanitized tests/parity/test_routes.py tests/native tests/kernels "$@"
sanitized tests/fuzz/test_fuzz.py -k "test_a_thousand_inputs and (coco or tables or masks or from_arrays or saved \
or label-volumes or label-studio or siim or nndetection or scores or dataset)" "$@"
echo "sanitizers: clean"
