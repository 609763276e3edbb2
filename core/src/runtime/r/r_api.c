// SPDX-License-Identifier: MIT
#include "runtime/r/r_api.h"

#include <dlfcn.h>

static const int *suspended; // set while R collects

static int may_be_collecting(void) {
    return *suspended;
}

bool pw_r_api_find(struct pw_r_api *api) {
    bool all = true;
#define FIND_FUNCTION(result, name, symbol, arguments)                                             \
    api->name = (result(*) arguments)dlsym(RTLD_DEFAULT, symbol);                                  \
    all = all && api->name;
    PW_R_FUNCTIONS(FIND_FUNCTION)
#undef FIND_FUNCTION
#define FIND_FUNCTION(result, name, symbol, arguments)                                             \
    api->name = (result(*) arguments)dlsym(RTLD_DEFAULT, symbol);
    PW_R_FUNCTIONS_OF_SOME(FIND_FUNCTION)
#undef FIND_FUNCTION
    suspended = api->suspended = dlsym(RTLD_DEFAULT, "R_interrupts_suspended");
    if (!api->is_collecting && suspended) {
        api->is_collecting = may_be_collecting;
    }
#define FIND_VALUE(name, symbol)                                                                   \
    {                                                                                              \
        struct pw_r_node **value = (struct pw_r_node **)dlsym(RTLD_DEFAULT, symbol);               \
        api->name = value ? *value : NULL;                                                         \
        all = all && api->name;                                                                    \
    }
    PW_R_VALUES(FIND_VALUE)
#undef FIND_VALUE
    api->builtins = dlsym(RTLD_DEFAULT, "R_FunTab");
    return all && api->is_collecting && api->builtins && api->suspended;
}

struct pw_r_node *pw_r_api_call(const struct pw_r_api *api, const char *function, int argument) {
    int failed = 0;
    struct pw_r_node *value = api->protect(api->logical(argument));
    struct pw_r_node *call = api->protect(api->call2(api->symbol(function), value));
    struct pw_r_node *result = api->evaluate(call, api->base, &failed);
    api->unprotect(2);
    return failed ? NULL : result;
}

struct pw_r_node *pw_r_collect_young(const struct pw_r_api *api) {
    int failed = 0;
    struct pw_r_node *no = api->protect(api->logical(0));
    struct pw_r_node *rest = api->protect(api->cons(no, api->nil));
    rest = api->protect(api->cons(no, rest));
    rest = api->protect(api->cons(no, rest));
    struct pw_r_node *inner = api->protect(api->call1(api->symbol("gc")));
    inner->fields[1] = rest; // made before it
    struct pw_r_node *whole = api->protect(api->call2(api->symbol(".Internal"), inner));
    struct pw_r_node *result = api->evaluate(whole, api->base, &failed);
    api->unprotect(6);
    return failed ? NULL : result;
}
