# SPDX-License-Identifier: GPL-2.0
# What is checked. Sourced by kernel/run.
# shellcheck shell=bash

# Tests that a kernel may skip, and why.
may_skip() { # kernel-name test
    [ "$2" = allocation_failure_at_every_step ] && [ "$1" != debug ] # needs fault injection
}

# A machine's log: ended by itself, and nothing of the kernel's in it that should not be.
check_log() { # title
    if grep -qa '^pagewise: end' "$machine_log"; then
        pass "$1: ran to its end"
    else
        fail "$1: did not reach its end"
        tail -n 15 "$machine_log" | sed 's/^/        /'
    fi
    if grep -aE "$trouble" "$machine_log" | grep -av '^#\|^ok\|^not ok' >"$cache/logs/trouble"; then
        fail "$1: the kernel's log has $(wc -l <"$cache/logs/trouble") lines of trouble"
        head -n 10 "$cache/logs/trouble" | sed 's/^/        /'
    else
        pass "$1: nothing in the kernel's log"
        echo "pagewise: log without trouble" >>"$machine_log"
    fi
}

# Every line of a TAP report becomes a check of ours.
count_tap() { # kernel-name
    local line name
    while read -r line; do
        name=${line#*mmapcopy.}
        case $line in
        "not ok"*) fail "$1: ${name%% *}" && grep -a "mmapcopy.c:.*${name%% *}" "$machine_log" | head -n 5 ;;
        *"# SKIP"*)
            if may_skip "$1" "${name%% *}"; then
                skip "$1: $name"
            else
                fail "$1: skipped $name"
            fi
            ;;
        *) pass "$1: ${name%% *}" ;;
        esac
    done < <(grep -aE '^(not )?ok [0-9]+ mmapcopy\.' "$machine_log")
}

selftest() { # kernel-name
    image "$1"
    initrd ours
    machine "mmapcopy selftest, $1" "$1" 1800 768 ours pagewise.run=mmapcopy \
        "pagewise.iterations=${PAGEWISE_KERNEL_ITERATIONS:-1000}"
    count_tap "$1"
    check_log "$1"
    # It turns itself off after what it has to say, or when its tables are full.
    [ "$1" != debug ] || check "debug: lockdep was on to the end" grep -qa '^pagewise: lockdep:1' "$machine_log"
    local expected seen
    expected=$(grep -c '^MMAPCOPY_TEST' "$tree/tools/testing/selftests/mm/mmapcopy.c")
    seen=$(grep -acE '^(not )?ok [0-9]+ mmapcopy\.' "$machine_log" || true)
    check "$1: all $expected tests were run" [ "$expected" = "$seen" ]
}

# A mutant is caught when one of the tests that its head names fails, or does not return and the kernel's log says
# why, or hangs if the head says that it will.
catch_mutants() { # name...
    local name tests seconds processors rounds hangs
    initrd ours
    for name in "$@"; do
        [ -e "$mutants/$name.patch" ] || die "no such mutant: $name ($(mutant_names | tr '\n' ' '))"
        image "mutant-$name"
        tests=$(sed -n 's/^Caught-by: *//p' "$mutants/$name.patch" | tr -d ' ')
        seconds=$(sed -n 's/^Seconds: *//p' "$mutants/$name.patch")
        processors=$(sed -n 's/^Processors: *//p' "$mutants/$name.patch")
        processors=${processors:-2}
        rounds=$(sed -n 's/^Rounds: *//p' "$mutants/$name.patch")
        hangs=$(sed -n 's/^Hangs: *//p' "$mutants/$name.patch")
        machine "mutant $name" "mutant-$name" "${seconds:-180}" 768 ours pagewise.run=mmapcopy \
            "pagewise.iterations=${rounds:-1000}" "pagewise.tests=$tests"
        if ! grep -qa '^#  RUN' "$machine_log"; then
            fail "mutant $name: the machine did not get as far as the tests"
        elif caught_by "$tests"; then
            pass "mutant $name is caught by $caught"
            echo "pagewise: caught by $caught" >>"$machine_log"
        else
            fail "mutant $name survives $tests"
        fi
    done
}

caught_by() { # test,test... ; sets $caught
    local name
    for name in ${1//,/ }; do
        if grep -qaE "^not ok [0-9]+ mmapcopy\.$name\$" "$machine_log"; then
            caught=$name
        elif grep -qaE "^ok [0-9]+ mmapcopy\.$name( |\$)" "$machine_log" ||
            ! grep -qa "RUN  *mmapcopy\.$name " "$machine_log"; then
            continue
        elif grep -qaE "$trouble" "$machine_log"; then
            caught="$name (the kernel's log)"
        elif [ "${hangs:-no}" = yes ]; then
            caught="$name (hangs)"
        else
            continue
        fi
        return 0
    done
    return 1
}

# The kernel's own tests say the same with the series as without it. They take minutes: what they say of a kernel is
# kept beside its image and used again; `kernel/run mm` asks again.
compare_mm_tests() { # [again]
    local name list before after wanted=()
    initrd mm
    list=$(mm_list)
    before=$(image_path stock).mm-$list
    after=$(image_path release).mm-$list
    if [ -n "${quick:-}" ] && ! [ -e "$before" -a -e "$after" ]; then
        skip "the kernel's own tests: what they say of these kernels is not recorded yet; type: kernel/run mm"
        return
    fi
    [ -e "$before" ] && [ $# = 0 ] || wanted+=(stock)
    [ -e "$after" ] && [ $# = 0 ] || wanted+=(release)
    if [ ${#wanted[@]} = 0 ]; then
        echo "-- kernel's own tests: as recorded for these very kernels"
    else
        run_mm_tests "$list" "${wanted[@]}"
    fi
    while read -r name; do
        check "kernel's own test $name: the same before and after the series" diff \
            <(sed -n "s/^$name: //p" "$before") <(sed -n "s/^$name: //p" "$after")
    done <"$cache/programs-mm/mm-tests"
}

# Of another list of tests, other results.
mm_list() {
    printf '%s\n' "${mm_tests[@]}" | cksum | cut -d ' ' -f 1
}

# They hardly use more than one processor: two kernels at a time where there are two.
run_mm_tests() { # list kernel-name...
    local list=$1 kernel results
    shift
    for kernel in "$@"; do
        image "$kernel"
        machine "kernel's own tests, $kernel" "$kernel" 1800 1024 mm pagewise.run=mm &
        [ "$(nproc)" -gt 1 ] || wait
    done
    wait
    for kernel in "$@"; do
        machine_log=$(log_of "kernel's own tests, $kernel")
        check_log "kernel's own tests, $kernel"
        results=$(image_path "$kernel").mm-$list
        rm -f "$results"
        ! grep -qa '^pagewise: end' "$machine_log" || mm_results "$machine_log" >"$results"
    done
}

# "program: result" for every line of TAP and the exit status, without what differs from run to run. Of a
# TAP line only its number: the kernel's own messages may cut off the rest.
mm_results() { # log
    awk '/^# test / { name = $3 }
         match($0, /^(not )?ok [0-9]+/) { print name ": " substr($0, 1, RLENGTH) (/# SKIP/ ? " SKIP" : "") }
         /^\[(PASS|FAIL|SKIP|OK)\]|^Totals|^# exit / { sub(/0x[0-9a-f]+/, "X"); print name ": " $0 }' "$1" |
        sed -E 's/[0-9]+(\.[0-9]+)? ?(ns|us|ms|s|MB\/s)\b/T/g'
}

# Each patch of the series, applied with those before it, builds and boots.
boot_series() {
    local n
    initrd ours
    for ((n = 1; n < ${#series[@]}; n++)); do
        grep -q '^+++ b/\(mm\|kernel\|arch\|include\)/' "${series[n - 1]}" || continue
        image "after-$n"
        machine "after patch $n" "after-$n" 120 512 ours pagewise.run=none
        check_log "after patch $n"
    done
}

# The series for the newest kernel: nothing of the other series' is used but the configuration and the machine.
test_newest() { # [series]
    local names
    case ${1:-} in
    series) boot_series ;;
    '')
        static_series
        selftest release
        mapfile -t names < <(mutant_names)
        catch_mutants "${names[@]}"
        ;;
    *) die "newest: no such part: $1 (series)" ;;
    esac
}

# --- what needs no kernel ------------------------------------------------------------------------

static_checks() {
    local patch scratch name
    static_series
    for patch in "$here"/patches-7.3/000[1-9]-*.patch; do
        check "checkpatch, series for 7.3: $(basename "$patch")" checkpatch "$patch"
    done
    check "every behaviour that docs/notes/mmapcopy.md lists has its test" behaviours_tested
    scratch=$(mktemp -d)
    patched_files "$scratch" "${series[@]}"
    while read -r name; do
        rm -rf "${scratch:?}/mutant"
        check "mutant $name applies" patched_files "$scratch/mutant" "${series[@]}" "$mutants/$name.patch"
        check "mutant $name changes what is compiled" mutant_differs "$scratch" "$name"
    done < <(mutant_names)
    set_tree "${series[@]}"
    check "the tests and the benchmark compile" guest_programs "$scratch"
    check "the manual page is well-formed" manual_page
    rm -rf "$scratch"
}

static_series() {
    local patch scratch
    scratch=$(mktemp -d)
    unpack
    check "the series applies to $package $(source_version)" patched_files "$scratch" "${series[@]}"
    for patch in "${series[@]}"; do
        check "checkpatch: $(basename "$patch")" checkpatch "$patch"
    done
    rm -rf "$scratch"
}

# The table under "Behaviours and their tests": a behaviour, then its tests by name. Each row has one, each is there in
# both series, and each test is in the table.
behaviours_tested() {
    local rows named tests patch
    rows=$(sed -n '/^## Behaviours and their tests/,/^## /p' "$root/docs/notes/mmapcopy.md" | grep '^| [^|]* |' |
        grep -v '^| behaviour')
    ! grep -v '`' <<<"$rows" || return 1
    named=$(grep -o '`[a-z_0-9]*`' <<<"$rows" | tr -d '`' | sort -u)
    for patch in "$here"/patches*/*-selftests-*.patch; do
        tests=$(sed -n 's/^+MMAPCOPY_TEST(\(.*\))$/\1/p' "$patch" | sort)
        diff <(echo "$named") <(echo "$tests") || return 1
    done
}

mutant_differs() { # scratch name
    ! diff -rq "$1/mutant/mm" "$1/mm" >/dev/null
}

# As a maintainer would run it; FILE_PATH_CHANGES asks for MAINTAINERS entries of new files.
checkpatch() { # patch
    (cd "$cache/stock" && perl scripts/checkpatch.pl --no-tree --terse --strict --quiet \
        --ignore FILE_PATH_CHANGES "$1")
}

manual_page() {
    local messages
    messages=$(mandoc -T lint -W warning "$here/man/mmapcopy.2" 2>&1 | grep -v 'missing date\|unknown manual') || true
    [ -z "$messages" ] || {
        echo "$messages"
        return 1
    }
}
