// SPDX-License-Identifier: MIT
#include "process/state.h"

struct pw_gate pw_gate = {.threshold = SIZE_MAX, .copy_threshold = SIZE_MAX};
struct pw_process pw_process = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .gate = &pw_gate, .keeper_pressure = {.fd = -1}};

void pw_process_forget_collections(void) {
    pw_collector_forget(&pw_process.collector);
    pw_process.was_refused = false;
}

bool pw_is_on(void) {
    return pw_gate.threshold != SIZE_MAX && !__atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED);
}

void pw_process_note_identity(void) {
    pw_process.pid = pw_os_pid();
    pw_process.knows_first_thread = pw_os_thread_id() == pw_process.pid;
    pw_process.first_thread = pthread_self();
}

bool pw_process_is_new(void) {
    return pw_process.fork_marker ? *pw_process.fork_marker == 0 : pw_process.pid != pw_os_pid();
}
