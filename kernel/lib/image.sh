# SPDX-License-Identifier: GPL-2.0
# Kernels, built once: cached by source, configuration, patches and compiler. Sourced by kernel/run.
# shellcheck shell=bash

build_seconds=3600

# The mutants that every test run builds: DESIGN's two negative controls.
required_mutants=(wrong-pgoff exclusive-bit)

mutant_names() {
    find "$mutants" -name '*.patch' -printf '%f\n' | sed 's/\.patch$//' | sort
}

image_config() { # name
    local files=("$here/config/release.config")
    case $1 in
    debug | kasan) files+=("$here/config/$1.config") ;;
    esac
    sed "${other_options:-}" "${files[@]}"
}

image_patches() { # name
    case $1 in
    stock) ;;
    release | debug | kasan) printf '%s\n' "${series[@]}" ;;
    mutant-*) printf '%s\n' "${series[@]}" "$mutants/${1#mutant-}.patch" ;;
    after-*) printf '%s\n' "${series[@]:0:${1#after-}}" ;;
    *) die "no such kernel: $1" ;;
    esac
}

# Only what is compiled counts: tests and documents do not make another kernel.
image_key() { # name
    local scratch patches
    mapfile -t patches < <(image_patches "$1")
    scratch=$(mktemp -d)
    unpack >&2
    patched_files "$scratch" "${patches[@]}" || die "the patches for $1 do not apply"
    rm -rf "$scratch/tools" "$scratch/Documentation"
    {
        source_version
        gcc --version | head -n 1
        image_config "$1"
        cd "$scratch" && find . -type f -print0 | sort -z | xargs -0r sha256sum
    } | sha256sum | cut -c 1-16
    rm -rf "$scratch"
}

image_path() { # name
    echo "$cache/images/$1-$(image_key "$1")"
}

images_cached() {
    local name
    [ "$(source_version)" = "$(cat "$cache/stock/.pagewise-version" 2>/dev/null)" ] || return 1
    for name in stock release debug "${required_mutants[@]/#/mutant-}"; do
        [ -e "$(image_path "$name")" ] || return 1
    done
}

in_tree() { # build-folder make-argument...
    local folder=$1
    shift
    # Nothing of the machine or of the hour in the kernel, and one compiler cache for all of them.
    CCACHE_DIR="$compiler_cache" CCACHE_MAXSIZE=3G CCACHE_NOHASHDIR=1 KCONFIG_ALLCONFIG="$folder/wanted.config" \
        KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=pagewise KBUILD_BUILD_HOST=pagewise \
        make -C "$tree" O="$folder" CC="ccache gcc" "$@"
}
export -f in_tree

configure() { # name build-folder
    mkdir -p "$2"
    image_config "$1" >"$2/wanted.config"
    in_tree "$2" --silent allnoconfig >/dev/null 2>"$2/configure.log" || die "see $2/configure.log"
    # Later lines win, as they do in Kconfig.
    local line last
    while read -r line; do
        [[ $line == CONFIG_* ]] || continue
        last=$(grep "^${line%%=*}=" "$2/wanted.config" | tail -n 1)
        grep -qxF "$last" "$2/.config" || die "$1: the kernel's configuration refuses $last"
    done <"$2/wanted.config"
}

# Build a kernel unless it is cached, under whatever name: after the last patch that is compiled, the series is the
# release kernel. Mutants start from the release build, parts of the series from the stock one.
image() { # name
    local name=$1 path folder patches twin
    path=$(image_path "$name")
    [ -e "$path" ] && return
    mkdir -p "$cache/images"
    twin=$(find "$cache/images" -name "*-${path##*-}" | head -n 1)
    if [ -n "$twin" ]; then
        echo "-- build $name: nothing to do, it is $(basename "$twin")"
        ln "$twin" "$path"
        return
    fi
    mapfile -t patches < <(image_patches "$name")
    set_tree "${patches[@]}"
    case $name in
    mutant-*) folder=$cache/build-release ;;
    after-*) folder=$cache/build-stock ;;
    *) folder=$cache/build-$name ;;
    esac
    configure "$name" "$folder"
    export tree compiler_cache
    step "build $name" "$build_seconds" bash -c \
        'in_tree "$0" --jobs="$1" bzImage' "$folder" "${PAGEWISE_KERNEL_JOBS:-$(nproc)}"
    cp "$folder/arch/x86/boot/bzImage" "$path.partial"
    mv "$path.partial" "$path"
}
