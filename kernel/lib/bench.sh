# SPDX-License-Identifier: GPL-2.0
# Measuring in the machine, and the page of results. Sourced by kernel/run.
# shellcheck shell=bash

# Time as the number of instructions: the same whatever else the host does. One processor, and without the string
# instructions that a processor executes by the line and the emulation by the byte.
counted='-accel tcg,thread=single -icount shift=0,sleep=off -cpu max,erms=off,fsrm=off'

# The machine holds a source, a copy, a third set for the child of a fork, and some room.
bench() { # [--size MEGABYTES] [--rounds N] [--pairs N]
    local size=1024 rounds=3 pairs=2 pair
    while [ $# -gt 0 ]; do
        case $1 in
        --size) size=$2 ;;
        --rounds) rounds=$2 ;;
        --pairs) pairs=$2 ;;
        *) die "bench: no such option: $1 (--size --rounds --pairs)" ;;
        esac
        shift 2
    done
    image stock
    image release
    initrd ours
    rm -f "$cache"/logs/bench-*.log
    # Stock and patched in turn, so that what disturbs the host disturbs both.
    for ((pair = 1; pair <= pairs; pair++)); do
        bench_machine stock "$pair" "$size" "$rounds" fork
        bench_machine release "$pair" "$size" "$rounds"
    done
    chosen_accelerator=$counted processors=1
    bench_machine stock counted $((size / 4)) 2 fork
    bench_machine release counted $((size / 4)) 2
    write_results
}

bench_machine() { # kernel machine megabytes rounds [fork]
    local kernel=$1 title="bench $1 $2" size=$3
    machine "$title" "$kernel" 3000 $((size * 3 + 512)) ours pagewise.run=bench pagewise.swap=0 \
        "pagewise.bench=$size,$4${5:+,$5}"
    check_log "$title"
    {
        echo "pagewise: bench size=$size rounds=$4"
        cat "$machine_log"
    } >"$cache/logs/bench-$kernel-$2.log"
}

# What the last runs said of these very kernels: figures and verdicts, into docs/results/mmapcopy.md.
write_results() {
    local name list images=()
    while read -r name; do images+=(--image "$(basename "$(image_path "$name")")"); done < <(
        printf '%s\n' stock release debug kasan
        mutant_names | sed 's/^/mutant-/'
    )
    list=$(mm_list)
    check "docs/results/mmapcopy.md is written" python3 "$here/bench/report.py" --logs "$cache/logs" \
        --source "$package $(source_version)" --output "$root/docs/results/mmapcopy.md" "${images[@]}" \
        --mm "$(image_path stock).mm-$list" "$(image_path release).mm-$list" \
        --r "$root/docs/results/mmapcopy-r.md"
}
