"""Where test/aarch64 keeps what it makes, and what of Debian's arm64 the tests need."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build/aarch64")
SYSROOT = os.path.join(BUILD, "root")
# What the tests are built with, and what they start.
PACKAGES = ("libcmocka-dev", "libc6-dev", "libstdc++-12-dev", "coreutils", "dash", "bash", "grep", "sed", "util-linux")

sys.path.insert(0, os.path.join(ROOT, "test/machines"))
