# SPDX-License-Identifier: GPL-2.0
# The kernel's source: one tree, whose content is the stock source with some patches. Sourced by kernel/run.
# There are two that a series is for: Debian 12's own, and the newest one that Debian has (use_newest_source).
# shellcheck shell=bash

home=~ # from the password file where HOME is not set
cache=${PAGEWISE_KERNEL_CACHE:-${XDG_CACHE_HOME:-$home/.cache}/pagewise-kernel}
compiler_cache=$cache/ccache

use_source() { # package patches mutants
    package=$1
    mutants=$here/$3
    tree=$cache/linux # the same path for every build, so that the compiler cache serves them all
    mapfile -t series < <(find "$here/$2" -name '000[1-9]-*.patch' | sort)
}

use_source linux-source-6.12 patches mutants

# A cache inside the cache, so that nothing of the one kernel is taken for the other's.
use_newest_source() {
    cache=$cache/linux-7.3
    # What 7.3 calls by another name, or asks for apart.
    other_options='s/^CONFIG_PROC_SYSCTL=/CONFIG_SYSCTL=/; s/^CONFIG_NUMA=y/&\nCONFIG_NUMA_MIGRATION=y/'
    use_source linux-source-7.3 patches-7.3 mutants-7.3
}

source_version() {
    if [ "$package" = linux-source-6.12 ]; then
        dpkg-query -W -f '${Version}' "$package" 2>/dev/null || echo none
    else
        dpkg-deb --field "$cache/$package.deb" Version 2>/dev/null || echo none
    fi
}

# The newest source is in Debian 13's backports. It is data here, no package of this system's: apt fetches it with
# lists of its own and checks Debian's signature, and nothing is installed.
fetch_newest_source() {
    [ ! -e "$cache/$package.deb" ] || return 0
    local apt=$cache/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "${PAGEWISE_KERNEL_MIRROR:-http://deb.debian.org/debian} trixie-backports main" >"$apt/sources.list"
    export apt package cache
    step "fetch $package" 1200 bash -c '
        settings=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
            -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt" -o APT::Sandbox::User=root)
        apt-get "${settings[@]}" update && cd "$apt" && apt-get "${settings[@]}" download "$package" &&
            mv "$package"_*.deb "$cache/$package.deb"'
    rm -rf "$apt"
}

source_archive() {
    if [ "$package" = linux-source-6.12 ]; then
        cat "/usr/src/$package.tar.xz"
    else
        dpkg-deb --fsys-tarfile "$cache/$package.deb" | tar -xO "./usr/src/$package.tar.xz"
    fi
}
export -f source_archive

unpack_into() { # folder
    mkdir -p "$1"
    export package cache
    step "unpack $package $(source_version) into $(basename "$1")" 600 bash -c \
        'set -o pipefail; source_archive | tar -C "$0" --strip-components=1 -xJ' "$1"
}

unpack() {
    local version
    version=$(source_version)
    [ "$(cat "$cache/stock/.pagewise-version" 2>/dev/null)" = "$version" ] && return
    [ "$version" != none ] || die "$package is missing. Type: apt-get install $package"
    rm -rf "$cache/stock" "$tree" "$cache/headers"
    unpack_into "$cache/stock"
    echo "$version" >"$cache/stock/.pagewise-version"
}

# Room for the two trees, unless they are there.
source_megabytes=4000

source_fits() {
    [ -e "$tree/Makefile" ] ||
        [ "$(df --output=avail --block-size=1M "$cache" | tail -n 1)" -gt $source_megabytes ]
}

# The files that patches touch, one a line.
touched_files() { # patch...
    [ $# -gt 0 ] || return 0
    sed -n 's,^+++ b/,,p' "$@" | sort -u
}

# The content of those files after the patches, in a folder.
patched_files() { # folder patch...
    local folder=$1 file patch
    shift
    while read -r file; do
        [ -e "$cache/stock/$file" ] || continue
        mkdir -p "$folder/$(dirname "$file")"
        cp -p "$cache/stock/$file" "$folder/$file"
    done < <(touched_files "$@")
    for patch in "$@"; do
        patch --quiet --strip=1 --fuzz=0 --no-backup-if-mismatch --directory="$folder" <"$patch" ||
            return 1
    done
}

# Give the tree the stock content with these patches. Files that stay the same keep their time, so
# that a build does only what is new.
set_tree() { # patch...
    unpack
    if [ ! -e "$tree/Makefile" ]; then
        rm -rf "$tree" "$tree.partial"
        # Faster than a copy of 80,000 files, which is read as well as written.
        unpack_into "$tree.partial"
        : >"$tree.partial/.pagewise-touched"
        mv "$tree.partial" "$tree"
    fi
    local scratch file
    scratch=$(mktemp -d)
    patched_files "$scratch" "$@" || die "the patches do not apply to $(source_version): $*"
    while read -r file; do
        if [ -e "$scratch/$file" ]; then
            mkdir -p "$tree/$(dirname "$file")"
            cmp --silent "$scratch/$file" "$tree/$file" || cp "$scratch/$file" "$tree/$file"
        elif [ -e "$cache/stock/$file" ]; then
            cmp --silent "$cache/stock/$file" "$tree/$file" || cp "$cache/stock/$file" "$tree/$file"
        else
            rm -f "$tree/$file"
        fi
    done < <({ touched_files "$@" && cat "$tree/.pagewise-touched"; } | sort -u)
    touched_files "$@" >"$tree/.pagewise-touched"
    rm -rf "$scratch"
}
