# SPDX-License-Identifier: GPL-2.0
# The virtual machine: its programs, its first file system and its run. Sourced by kernel/run.
# shellcheck shell=bash

# What the log of a healthy machine never holds. The stack that the kernel prints when a memory
# control group kills (a test provokes one) is none of these.
trouble='BUG:|BUG at|WARNING:|Oops|general protection|Bad page|bad page|possible .* detected|suspicious RCU|rcu: INFO|soft lockup|hung_task|blocked for more than|bad unlock|held lock freed|sleeping function|Kernel panic|KASAN|UBSAN|refcount_t|list_(add|del) corruption|Unable to handle|stack guard|page_table_check'

# A busy host stops an emulated processor for seconds. Its timer check then fails, what it takes for
# the speed of its time stamp counter is wrong, and RCU looks stalled: of that, only minutes count.
patience='no_timer_check clocksource=acpi_pm tsc=unstable rcupdate.rcu_cpu_stall_timeout=300'

# Two nodes of memory, for what moves pages between them.
nodes=numa=fake=2

# Of the machine. A deadlock by the order of page table locks takes three (see its test).
processors=${PAGEWISE_KERNEL_PROCESSORS:-2}

# The kernel's own tests that a machine without modules, network and disks can run.
mm_tests=(cow mremap_test madv_populate mkdirty ksm_functional_tests mrelease_test map_fixed_noreplace
    mlock2-tests mseal_test uffd-unit-tests split_huge_page_test pagemap_ioctl seal_elf droppable)

headers() {
    [ -e "$cache/headers/linux/userfaultfd.h" ] && return
    mkdir -p "$cache/build-headers"
    step "headers" 300 make -C "$tree" O="$cache/build-headers" --silent headers
    rm -rf "$cache/headers" "$cache/headers.partial"
    cp -r "$cache/build-headers/usr/include" "$cache/headers.partial"
    mv "$cache/headers.partial" "$cache/headers"
}

# Static programs from the tree's selftests, warnings being errors for ours.
guest_program() { # name folder gcc-argument...
    local name=$1 into=$2
    shift 2
    local mm=$tree/tools/testing/selftests/mm
    gcc -static -O2 -D_GNU_SOURCE= -isystem "$cache/headers" -I"$mm/.." "$@" "$mm/$name.c" \
        "$mm/vm_util.c" -o "$into/$name" -lpthread -lrt
}

# Our programs, from the series and from this folder.
guest_programs() { # folder
    local into=$1
    headers
    guest_program mmapcopy "$into" -Wall -Werror
    gcc -static -O2 -Wall -Wextra -Werror "$here/bench/bench.c" -o "$into/bench"
}

# The kernel's own, those that compile here.
guest_mm_programs() { # folder
    local into=$1 name
    headers
    : >"$into/local_config.h" # no liburing
    for name in "${mm_tests[@]}"; do
        [ -e "$tree/tools/testing/selftests/mm/$name.c" ] || continue
        guest_program "$name" "$into" -w -I"$into" \
            $([ "$name" = uffd-unit-tests ] && echo "$tree/tools/testing/selftests/mm/uffd-common.c") \
            2>>"$cache/logs/mm-programs.log" && echo "$name"
    done >"$into/mm-tests" || true
}

# A file system in memory with busybox, the guest's first process and the programs of a folder.
make_initrd() { # programs initrd [root]
    local layout
    layout=$(mktemp -d)
    [ $# -lt 3 ] || cp -a "$3/." "$layout/"
    mkdir -p "$layout"/{bin,dev,proc,sys,test,tmp}
    cp "$(command -v busybox)" "$layout/bin/busybox"
    cp "$here/test/init" "$layout/init"
    cp -r "$1/." "$layout/test/"
    # Not compressed: an emulated processor would take longer to unpack than the host to read it.
    (cd "$layout" && find . | cpio --quiet --create --format=newc --owner=0:0) >"$2"
    rm -rf "$layout"
}

initrd() { # ours|mm|library|r
    local programs=$cache/programs-$1
    rm -rf "$programs"
    mkdir -p "$programs" "$cache/logs"
    case $1 in
    ours | mm)
        set_tree "${series[@]}"
        if [ "$1" = mm ]; then guest_mm_programs "$programs"; else guest_programs "$programs"; fi
        make_initrd "$programs" "$cache/initrd-$1"
        ;;
    *)
        rm -rf "$programs-root"
        "guest_$1" "$programs" "$programs-root"
        make_initrd "$programs" "$cache/initrd-$1" "$programs-root"
        rm -rf "$programs-root"
        ;;
    esac
}

# Emulation, unless a short run shows that the processor's own virtualisation works.
accelerator() { # kernel initrd
    if [ -z "${chosen_accelerator:-}" ]; then
        chosen_accelerator="-accel tcg,thread=multi -cpu max"
        local shares=()
        if [ -w /dev/kvm ] && qemu 20 "$1" "-accel kvm -cpu host" 512 "$2" \
            pagewise.run=none 2>/dev/null | grep -q '^pagewise: end'; then
            chosen_accelerator="-accel kvm -cpu host"
        fi
    fi
}

# A folder of this machine's, by a tag: the guest mounts it as file system 9p, read only.
shares=()
share() { # tag folder
    shares+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap,readonly=on"
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

qemu() { # seconds kernel accelerator megabytes initrd append... (initrd: a path, or the name of one of ours)
    local limit=$1 kernel=$2 accel=$3 memory=$4 initrd=$5
    shift 5
    [[ $initrd == */* ]] || initrd=$cache/initrd-$initrd
    # shellcheck disable=SC2086 # two lists of arguments
    timeout --kill-after=5 "$limit" ${PAGEWISE_KERNEL_NICE:-} qemu-system-x86_64 -nodefaults \
        -no-user-config -no-reboot -display none -serial stdio $accel -m "$memory" -smp "$processors" \
        ${shares[@]+"${shares[@]}"} -kernel "$kernel" -initrd "$initrd" \
        -append "console=ttyS0 panic=-1 oops=panic loglevel=6 $patience $nodes $*" </dev/null
}

log_of() { # title
    echo "$cache/logs/machine-${1//[^A-Za-z0-9]/-}.log"
}

# Run a machine to its end; what it printed is in $machine_log.
machine() { # title kernel-name seconds megabytes initrd append...
    local title=$1 kernel limit=$3 memory=$4 initrd=$5 begin=$SECONDS status=0 next=30
    kernel=$(image_path "$2")
    shift 5
    accelerator "$kernel" "$initrd"
    machine_log=$(log_of "$title")
    echo "-- machine: $title"
    # So that a report can tell what an older kernel did.
    echo "pagewise: kernel $(basename "$kernel")" >"$machine_log"
    qemu "$limit" "$kernel" "$chosen_accelerator" "$memory" "$initrd" "$@" >>"$machine_log" 2>&1 &
    local process=$!
    while kill -0 "$process" 2>/dev/null; do
        sleep 0.5
        if ((SECONDS - begin >= next)); then
            next=$((next + 30))
            echo "   $((SECONDS - begin)) s: $(grep -a '^#  RUN\|^# test\|^BENCH\|^RUN' "$machine_log" | tail -n 1 | tr -d '\r')"
        fi
    done
    wait "$process" || status=$?
    sed -i 's/\r//' "$machine_log"
    echo "   $((SECONDS - begin)) s; log: $machine_log"
    [ $status != 124 ] || echo "   gave up after $limit s"
}

# Any kernel with a first file system, for who tests something else by this machine: its console goes to standard output.
boot() { # [--read TAG=FOLDER] kernel initrd seconds megabytes append...
    while [ "${1:-}" = --read ]; do
        share "${2%%=*}" "${2#*=}"
        shift 2
    done
    [ $# -ge 4 ] || die "boot: [--read TAG=FOLDER] KERNEL INITRD SECONDS MEGABYTES [WORD...]"
    local kernel=$1 initrd=$2 limit=$3 memory=$4
    shift 4
    nodes=
    accelerator "$kernel" "$initrd"
    echo "pagewise: accelerator: $chosen_accelerator"
    qemu "$limit" "$kernel" "$chosen_accelerator" "$memory" "$initrd" "$@"
}
