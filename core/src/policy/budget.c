// SPDX-License-Identifier: MIT
#include "policy/budget.h"

// Nanoseconds for a page, until one was measured: a virtual machine's.
#define PRICE_NOT_MEASURED UINT64_C(1500)
// Nothing is saved before something was spent: that much is there to begin with.
#define TO_BEGIN_WITH UINT64_C(50000000)
// What a long program saves in its first hours is not a reason to waste its last ones: no more than
// this is put by.
#define MOST_PUT_BY UINT64_C(10000000000)

uint64_t pw_budget_left(const struct pw_budget *budget, unsigned percent, uint64_t now) {
    uint64_t allowed = TO_BEGIN_WITH + now / 100 * percent + budget->saved;
    return allowed > budget->spent ? allowed - budget->spent : 0;
}

void pw_budget_spend(struct pw_budget *budget, uint64_t time) {
    budget->spent += time;
}

void pw_budget_save(struct pw_budget *budget, uint64_t time) {
    budget->saved += time;
    if (budget->saved > budget->spent + MOST_PUT_BY) {
        budget->saved = budget->spent + MOST_PUT_BY;
    }
}

static uint64_t price_of(const struct pw_budget *budget, uint64_t pages) {
    return pages * (budget->page_price ? budget->page_price : PRICE_NOT_MEASURED);
}

void pw_budget_spend_pages(struct pw_budget *budget, uint64_t pages) {
    pw_budget_spend(budget, price_of(budget, pages));
}

void pw_budget_save_pages(struct pw_budget *budget, uint64_t pages) {
    pw_budget_save(budget, price_of(budget, pages));
}
