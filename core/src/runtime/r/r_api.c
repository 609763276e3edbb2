// SPDX-License-Identifier: MIT
#include "runtime/r/r_api.h"

#include <dlfcn.h>

bool pw_r_api_find(struct pw_r_api *api) {
    bool all = true;
#define FIND_FUNCTION(result, name, symbol, arguments)                                             \
    api->name = (result(*) arguments)dlsym(RTLD_DEFAULT, symbol);                                  \
    all = all && api->name;
    PW_R_FUNCTIONS(FIND_FUNCTION)
#undef FIND_FUNCTION
#define FIND_VALUE(name, symbol)                                                                   \
    {                                                                                              \
        struct pw_r_node **value = (struct pw_r_node **)dlsym(RTLD_DEFAULT, symbol);               \
        api->name = value ? *value : NULL;                                                         \
        all = all && api->name;                                                                    \
    }
    PW_R_VALUES(FIND_VALUE)
#undef FIND_VALUE
    api->builtins = dlsym(RTLD_DEFAULT, "R_FunTab");
    return all && api->builtins;
}

struct pw_r_node *pw_r_api_call(const struct pw_r_api *api, const char *function, int argument) {
    int failed = 0;
    struct pw_r_node *value = api->protect(api->logical(argument));
    struct pw_r_node *call = api->protect(api->call2(api->symbol(function), value));
    struct pw_r_node *result = api->evaluate(call, api->base, &failed);
    api->unprotect(2);
    return failed ? NULL : result;
}
