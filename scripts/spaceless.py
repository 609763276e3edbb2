"""Names without spaces, for what has no quotes: LD_PRELOAD, and make's lists of files."""

import atexit
import functools
import os
import re
import shutil
import tempfile


@functools.cache
def spaceless(path):
    """The path, or where a space or a colon is in it the same through a link to its folder, for as long as we live."""
    if not re.search(r"[\s:]", path):
        return path
    return os.path.join(link_to(os.path.dirname(path)), os.path.basename(path))


@functools.cache
def link_to(folder):
    own = tempfile.mkdtemp(prefix="pagewise-", dir="/tmp")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    os.chmod(own, 0o755)  # tests change their users
    link = os.path.join(own, "link")
    os.symlink(folder, link)
    return link
