# SPDX-License-Identifier: GPL-2.0
# Measuring in the machine. Sourced by kernel/run.
# shellcheck shell=bash

# The machine holds a source, a copy, a third set for the child of a fork, and some room.
bench() { # [--size MEGABYTES] [--rounds N] [--pairs N]
    local size=512 rounds=5 pairs=3 pair kernel memory
    while [ $# -gt 0 ]; do
        case $1 in
        --size) size=$2 ;;
        --rounds) rounds=$2 ;;
        --pairs) pairs=$2 ;;
        *) die "bench: no such option: $1 (--size --rounds --pairs)" ;;
        esac
        shift 2
    done
    memory=$((size * 3 + 512))
    image stock
    image release
    initrd ours
    rm -f "$cache"/logs/bench-*.log
    # Stock and patched in turn, so that what disturbs the host disturbs both.
    for ((pair = 1; pair <= pairs; pair++)); do
        for kernel in stock release; do
            machine "bench $kernel $pair" "$kernel" 2400 "$memory" ours pagewise.run=bench \
                pagewise.swap=0 "pagewise.bench=$size,$rounds"
            check_log "bench $kernel $pair"
            cp "$machine_log" "$cache/logs/bench-$kernel-$pair.log"
        done
    done
    check "docs/results/mmapcopy.md is written" python3 "$here/bench/report.py" --size "$size" \
        --rounds "$rounds" --accelerator "${chosen_accelerator%% -cpu*}" --source "$package $(source_version)" \
        --output "$root/docs/results/mmapcopy.md" "$cache"/logs/bench-*.log
}
