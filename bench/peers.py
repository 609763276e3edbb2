"""Allocators that Debian does not have in their newest version: built from the sources in a crate."""

import json
import os
import subprocess

from common import ROOT

CRATE = os.path.join(ROOT, "bench/transaction/peers/Cargo.toml")


def build_mimalloc(folder: str) -> dict[str, str]:
    """libmimalloc2.so and libmimalloc3.so in `folder`; returns their versions.

    As its own build file has a release: -O3, initial-exec, its malloc in the C library's place.
    """
    words = ["scripts/with-cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", CRATE]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    crate = next(package for package in json.loads(done.stdout)["packages"] if package["name"] == "libmimalloc-sys")
    sources = os.path.join(os.path.dirname(crate["manifest_path"]), "c_src/mimalloc")
    versions = {}
    for major in ("2", "3"):
        source, target = f"{sources}/v{major}", f"{folder}/libmimalloc{major}.so"
        with open(f"{source}/include/mimalloc.h", encoding="utf-8") as header:
            line = next(line for line in header if "define MI_MALLOC_VERSION" in line)
        number = int(line.split()[2])
        versions[major] = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        if not os.path.exists(target):
            os.makedirs(folder, exist_ok=True)
            subprocess.run(["gcc", "-O3", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin-malloc",
                            "-ftls-model=initial-exec", "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT",
                            f"-I{source}/include", f"{source}/src/static.c", "-o", target + ".new", "-pthread"], check=True)
            os.replace(target + ".new", target)
    return versions
