# SPDX-License-Identifier: GPL-2.0
# Pagewise and R in the machine. Sourced by kernel/run. Their files are this host's: a program is taken
# with the libraries that it is linked to.
# shellcheck shell=bash

core_tests=$root/build/core/core/test
libraries=$root/build/lib

# Debian's layout, in which the dynamic linker finds everything without a cache.
guest_root() { # root
    mkdir -p "$1"/usr/{lib/x86_64-linux-gnu,lib64,lib/R} "$1/etc"
    ln -s usr/lib usr/lib64 "$1/"
    cp -L /lib64/ld-linux-x86-64.so.2 "$1/usr/lib64/"
}

guest_libraries() { # root program...
    local to=$1/usr/lib/x86_64-linux-gnu path
    shift
    while read -r path; do
        [ -e "$to/$(basename "$path")" ] || cp -L "$path" "$to/"
    done < <(ldd "$@" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | grep -v "^$libraries" | sort -u)
}

# --- the core's tests ------------------------------------------------------------------------------

library_tests=(mmapcopy snapshot statistics collection stress faults hugetlb)

guest_library() { # programs root
    local name
    guest_root "$2"
    for name in "${library_tests[@]}"; do cp "$core_tests/test_$name" "$1/"; done
    guest_libraries "$2" "$1"/test_*
    cp "$here/test/library-tests" "$1/"
}

test_library() {
    if ! [ -x "$core_tests/test_mmapcopy" ]; then
        skip "Pagewise's own tests in the machine: they are not built; type: make build"
        return
    fi
    image release
    initrd library
    machine "library's tests, release" release 2400 1024 library pagewise.run=library \
        "pagewise.tests=${quick:-all}"
    library_results
    check "library: the kernel's call was used" grep -qa 'this kernel has mmapcopy' "$machine_log"
    check_log "library"
    # A page of 1 GB is reserved at boot; while it runs, this host may have no whole gigabyte left.
    machine "library on a page of 1 GB, release" release 600 4608 library pagewise.run=library \
        pagewise.tests=hugetlb pagewise.swap=0 hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=16
    library_results
    check "library: a block on a page of 1 GB" \
        grep -qa '1 free pages of 1024 MB: the block is on them' "$machine_log"
    check_log "library on a page of 1 GB"
}

library_results() {
    local line
    while read -r line; do
        case $line in
        "ok "*) pass "library: ${line#ok }" ;;
        *) fail "library: ${line#not ok }" ;;
        esac
    done < <(grep -aE '^(not )?ok [a-z]' "$machine_log")
}

# --- R ---------------------------------------------------------------------------------------------

# R without its documentation, and the packages that the cases load.
guest_r() { # programs root
    local package
    guest_root "$2"
    mkdir -p "$2"/usr/lib/R/{bin/exec,library,lib} "$2/usr/bin" "$2/usr/share" "$2/pagewise"
    cp /usr/lib/R/bin/exec/R "$2/usr/lib/R/bin/exec/"
    cp -rL /usr/lib/R/modules /usr/lib/R/etc /usr/lib/R/lib "$2/usr/lib/R/"
    for package in base compiler datasets grDevices graphics methods stats tools utils MASS rpart; do
        cp -r "/usr/lib/R/library/$package" "$2/usr/lib/R/library/"
        rm -rf "$2/usr/lib/R/library/$package"/{help,html,demo,doc,tests,po}
    done
    cp -r /usr/share/R "$2/usr/share/"
    cp -L "$libraries"/libpagewise.so.0 "$libraries/libpagewise-preload.so" "$2/pagewise/"
    mkdir -p "$2/usr/lib/pagewise" "$2/bin"
    ln -s /bin/busybox "$2/usr/bin/which" # what package utils looks for when it is loaded
    cp /usr/bin/true "$2/bin/" # what doctor tries the library on; busybox's is static
    cp "$root/build/bin/pagewise" "$2/usr/bin/"
    cp -L "$libraries"/libpagewise.so.0 "$libraries/libpagewise-preload.so" "$2/usr/lib/pagewise/"
    guest_libraries "$2" "$2"/usr/lib/R/{bin/exec/R,lib/*.so,modules/*.so} "$2/usr/bin/pagewise" \
        "$2"/usr/lib/R/library/*/libs/*.so
    # The plain BLAS: OpenBLAS would choose vector code that costs an emulated processor most.
    cp -L /usr/lib/x86_64-linux-gnu/blas/libblas.so.3 /usr/lib/x86_64-linux-gnu/lapack/liblapack.so.3 \
        "$2/usr/lib/x86_64-linux-gnu/"
    cp "$here/bench/r-runs" "$here/bench/r-case.R" "$1/"
    mkdir -p "$1/workloads" "$1/foundation"
    cp "$root"/bench/r/workloads/*.R "$1/workloads/"
    cp "$root"/bench/foundation/*.R "$1/foundation/"
}

bench_r() { # [--rounds N] [--cases NAME,...] [--configurations NAME,...] [--report]
    local rounds=1 cases='' configurations='' log=$cache/logs/r-bench.log only_report=''
    while [ $# -gt 0 ]; do
        case $1 in
        --rounds) rounds=$2 ;;
        --cases) cases=$2 ;;
        --configurations) configurations=$2 ;;
        --report) only_report=1 && set -- "$1" "$@" ;;
        *) die "bench-r: no such option: $1 (--rounds --cases --configurations --report)" ;;
        esac
        shift 2
    done
    [ -x "$root/build/bin/pagewise" ] && [ -e "$libraries/libpagewise-preload.so" ] ||
        die "bench-r: Pagewise is not built. Type: make build"
    "$root/scripts/ensure-packages" run
    if [ -z "$only_report" ]; then
        image release
        initrd r
        chosen_accelerator=$counted
        processors=1
        machine "R" release "${PAGEWISE_KERNEL_BENCH_SECONDS:-7200}" 1536 r pagewise.run=r pagewise.swap=0 \
            "pagewise.rounds=$rounds" "pagewise.cases=$cases" "pagewise.configurations=$configurations"
        check_log "R"
        cp "$machine_log" "$log"
    fi
    check "docs/results/mmapcopy-r.md is written" python3 "$here/bench/r-report.py" \
        --source "$package $(source_version)" --output "$root/docs/results/mmapcopy-r.md" "$log"
}
