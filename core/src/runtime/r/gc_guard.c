// SPDX-License-Identifier: MIT
#include "runtime/r/gc_guard.h"

#include <string.h>

typedef struct pw_r_node *builtin(struct pw_r_node *call, struct pw_r_node *function,
                                  struct pw_r_node *arguments, struct pw_r_node *environment);

struct entry { // of R_FunTab: FUNTAB in Defn.h
    const char *name;
    builtin *function;
    int code, evaluation, arity, kind, precedence, associates_right;
};

#define MOST_ENTRIES 2000

static builtin *original;
static struct pw_r_node *nothing;
static void (*first)(void);

static struct pw_r_node *guarded(struct pw_r_node *call, struct pw_r_node *function,
                                 struct pw_r_node *arguments, struct pw_r_node *environment) {
    if (arguments != nothing) {
        first();
    }
    return original(call, function, arguments, environment);
}

static bool is_table(const struct entry *table) {
    static const char *const begin[] = {"if", "while", "for", "repeat", "break"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        if (!table[i].name || strcmp(table[i].name, begin[i]) != 0) {
            return false;
        }
    }
    return true;
}

// A builtin has its place in the table in its first field.
bool pw_r_guard_gc_time(const struct pw_r_api *api, void (*before)(void)) {
    struct entry *table = api->builtins;
    struct pw_r_node *builtin = api->symbol_value(api->symbol("gc.time"));
    if (!is_table(table) || api->type_of(builtin) != PW_R_BUILTIN) {
        return false;
    }
    unsigned at;
    memcpy(&at, &builtin->fields[0], sizeof at);
    if (at >= MOST_ENTRIES || strcmp(table[at].name, "gc.time") != 0) {
        return false;
    }
    first = before;
    nothing = api->nil;
    if (table[at].function != guarded) {
        original = table[at].function;
        table[at].function = guarded;
    }
    return true;
}
