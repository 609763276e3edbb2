# SPDX-License-Identifier: GPL-2.0
# Counting and telling. Sourced by kernel/run.
# shellcheck shell=bash

passed=0
failed=0
skipped=0
started=$SECONDS

die() {
    echo "kernel/run: $*" >&2
    exit 1
}

# A step that takes time: say that it began, and how long it took.
step() { # title seconds command...
    local title=$1 limit=$2 begin=$SECONDS log status=0
    shift 2
    mkdir -p "$cache/logs"
    log=$cache/logs/${title//[^A-Za-z0-9]/-}.log
    echo "-- $title"
    # shellcheck disable=SC2086 # PAGEWISE_KERNEL_NICE is a command with arguments
    timeout --kill-after=10 "$limit" ${PAGEWISE_KERNEL_NICE:-} "$@" >"$log" 2>&1 </dev/null &
    local process=$!
    while kill -0 "$process" 2>/dev/null; do
        sleep 1
        if (((SECONDS - begin) % 30 == 0 && SECONDS > begin)); then
            echo "   $((SECONDS - begin)) s: $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-90)"
        fi
    done
    wait "$process" || status=$?
    [ $status = 124 ] && echo "   gave up after $limit s"
    [ $status = 0 ] || {
        tail -n 30 "$log" >&2
        die "$title failed (status $status); all of its output: $log"
    }
    echo "   $((SECONDS - begin)) s"
}

pass() {
    passed=$((passed + 1))
    echo "ok      $*"
}

fail() {
    failed=$((failed + 1))
    echo "FAILED  $*"
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped $*"
}

check() { # what command...
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then
        pass "$what"
    else
        fail "$what"
        printf '%s\n' "$output" | tail -n 40 | sed 's/^/        /'
    fi
}

report() {
    echo "kernel: $((SECONDS - started)) s"
    if [ $skipped -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ $failed = 0 ]
}
