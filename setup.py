# SPDX-License-Identifier: Apache-2.0
"""Builds the compiled twins of the kernels; everything else is in pyproject.toml.

The extension is optional: without a compiler the installation goes on with the NumPy kernels, and
`calipers --version` says which route is in use.
"""

import os
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = "src/calipers/kernels/native"

# No fused multiply-add: the twins promise the same bits as NumPy, on every machine. That nobody
# reads the exception flags of the processor changes no bit, and lets loops with a choice in them be
# vectorised.
FLAGS = {"msvc": ["/O2", "/std:c++17", "/fp:precise", "/EHsc"]}
UNIX = [
    "-O3",
    "-std=c++17",
    "-ffp-contract=off",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
]


class build_native(build_ext):
    """Chooses the flags of the compiler at hand."""

    def build_extensions(self) -> None:
        """Set the flags and build."""
        kind = self.compiler.compiler_type
        sanitizers = os.environ.get("CALIPERS_SANITIZE", "").split()  # see tests/native/sanitize.sh
        for extension in self.extensions:
            extension.extra_compile_args = [*FLAGS.get(kind, UNIX), *sanitizers]
            if kind != "msvc":
                extension.extra_link_args = ["-pthread", *sanitizers]
        super().build_extensions()


setup(
    ext_modules=[
        Extension(
            "calipers.kernels._native",
            sources=sorted(glob(f"{NATIVE}/*.cpp")),
            depends=sorted(glob(f"{NATIVE}/*.h")),
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"build_ext": build_native},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
