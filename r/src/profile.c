// SPDX-License-Identifier: MIT
//
// The memory of this process over time: a thread that looks at /proc/self/status. It touches no
// vector, and no memory of the malloc family.
#include "calls.h"

#include <pagewise.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FIELDS 4 // time in s; bytes: physical, snapshots, warm

struct profile {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    bool running;
    pid_t pid;
    double interval;
    struct timespec start;
    int status; // descriptor
    size_t count, room;
    double (*samples)[FIELDS];
};

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static double field(const char *status, const char *name) {
    const char *line = strstr(status, name);
    return line ? 1024.0 * strtod(line + strlen(name), NULL) : 0;
}

// Where there is no room for more, every second sample goes and the others follow in twice the
// time. The first, the highest and the last stay.
static void thin(struct profile *profile) {
    size_t highest = 0, kept = 0;
    for (size_t i = 1; i < profile->count; i++) {
        highest = profile->samples[i][1] > profile->samples[highest][1] ? i : highest;
    }
    for (size_t i = 0; i < profile->count; i++) {
        if (i % 2 == 0 || i == highest || i == profile->count - 1) {
            memmove(profile->samples[kept++], profile->samples[i], sizeof *profile->samples);
        }
    }
    profile->count = kept;
    profile->interval *= 2;
}

// RSS counts a page of a snapshot once for every vector that shows it; the snapshots themselves
// hold it once.
static void take_sample(struct profile *profile) {
    char status[4096];
    struct pw_statistics block = {0};
    ssize_t got = pread(profile->status, status, sizeof status - 1, 0);
    if (got <= 0) {
        return;
    }
    if (profile->count == profile->room) {
        thin(profile);
    }
    status[got] = 0;
    pw_statistics_read(&block, sizeof block);
    double shared = field(status, "RssShmem:");
    double *sample = profile->samples[profile->count++];
    sample[0] = seconds_since(&profile->start);
    sample[1] = field(status, "RssAnon:") + field(status, "RssFile:") +
                field(status, "HugetlbPages:") +
                (block.snapshot_bytes ? (double)block.snapshot_bytes : shared);
    sample[2] = (double)block.snapshot_bytes;
    sample[3] = (double)block.cached_bytes;
}

static void *keep_sampling(void *argument) {
    struct profile *profile = argument;
    struct timespec next;
    pw_quiet_thread_began();
    pthread_mutex_lock(&profile->lock);
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!profile->stop) {
        take_sample(profile);
        long pause = (long)(profile->interval * 1e9);
        next.tv_sec += (next.tv_nsec + pause) / 1000000000;
        next.tv_nsec = (next.tv_nsec + pause) % 1000000000;
        if (pthread_cond_timedwait(&profile->wake, &profile->lock, &next) == ETIMEDOUT) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            if (now.tv_sec > next.tv_sec + 1) { // the machine slept: no rush to catch up
                next = now;
            }
        }
    }
    pthread_mutex_unlock(&profile->lock);
    pw_quiet_thread_ends();
    return NULL;
}

static void stop(struct profile *profile) {
    if (profile->running && profile->pid == getpid()) {
        pthread_mutex_lock(&profile->lock);
        profile->stop = true;
        pthread_cond_signal(&profile->wake);
        pthread_mutex_unlock(&profile->lock);
        pthread_join(profile->thread, NULL);
        take_sample(profile);
    }
    profile->running = false;
}

static void release(struct profile *profile) {
    stop(profile);
    if (profile->status >= 0 && profile->pid == getpid()) {
        close(profile->status);
    }
    munmap(profile->samples, profile->room * sizeof *profile->samples);
    free(profile);
}

static void finalize(SEXP handle) {
    struct profile *profile = R_ExternalPtrAddr(handle);
    if (profile) {
        R_ClearExternalPtr(handle);
        release(profile);
    }
}

static bool start_thread(struct profile *profile) {
    pthread_condattr_t attributes;
    sigset_t all, saved;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&profile->lock, NULL);
    pthread_cond_init(&profile->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    // R's signals are R's own business.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    profile->running = pthread_create(&profile->thread, NULL, keep_sampling, profile) == 0;
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return profile->running;
}

// A handle, or NULL when this process may not be watched. `most` samples are kept, 8 at least.
SEXP pagewise_profile_start(SEXP interval, SEXP most) {
    size_t room = (size_t)Rf_asReal(most);
    SEXP handle = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
    struct profile *profile = calloc(1, sizeof *profile);
    void *samples = mmap(NULL, room * sizeof *profile->samples, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!profile || samples == MAP_FAILED) {
        free(profile);
        Rf_error("no memory for the samples of a profile");
    }
    profile->samples = samples;
    profile->room = room;
    profile->interval = Rf_asReal(interval);
    profile->pid = getpid();
    profile->status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    clock_gettime(CLOCK_MONOTONIC, &profile->start);
    R_SetExternalPtrAddr(handle, profile);
    R_RegisterCFinalizerEx(handle, finalize, TRUE);
    take_sample(profile);
    bool watched = profile->count == 1 && start_thread(profile);
    UNPROTECT(1);
    return watched ? handle : R_NilValue;
}

// The samples: a matrix with a row each.
SEXP pagewise_profile_stop(SEXP handle) {
    struct profile *profile = R_ExternalPtrAddr(handle);
    if (!profile) {
        return R_NilValue;
    }
    stop(profile);
    SEXP samples = PROTECT(Rf_allocMatrix(REALSXP, (int)profile->count, FIELDS));
    for (size_t i = 0; i < profile->count; i++) {
        for (size_t j = 0; j < FIELDS; j++) {
            REAL(samples)[j * profile->count + i] = profile->samples[i][j];
        }
    }
    finalize(handle);
    UNPROTECT(1);
    return samples;
}
