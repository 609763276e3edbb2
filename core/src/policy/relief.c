// SPDX-License-Identifier: MIT
#include "policy/relief.h"

#define LEAST_GARBAGE  4096u // 16 MB
#define GARBAGE_PART   16u   // of live memory
#define LOOK_STEP      1024u // 4 MB: far more to fill than looking costs
#define PLENTY_PART    16u   // of the room: until that is used the room is not looked at again,
#define PLENTY_MS      50u   // but after so long, as others use it as well
#define LEAST_MARGIN   2048u // 8 MB: for what is not R's, and what we do not see in time
#define MOST_MARGIN    8192u // 32 MB
#define MARGIN_PART    16u   // of live memory
#define SPENDING_PART  4u    // of the time since the first one
#define FRUITFUL_PART  16u   // of live memory
#define MOST_FRUITLESS 6u

static bool has_plenty(const struct pw_relief *relief, uint64_t live, uint64_t now_ms) {
    return live < relief->plenty_below && now_ms - relief->plenty_since < PLENTY_MS;
}

bool pw_relief_is_due(struct pw_relief *relief, uint64_t live, uint64_t now_ms) {
    uint64_t part = relief->after / GARBAGE_PART;
    uint64_t least = part > LEAST_GARBAGE ? part : LEAST_GARBAGE;
    bool grown = live >= relief->after + (least << relief->fruitless);
    if (!grown || live < relief->looked_at + LOOK_STEP || has_plenty(relief, live, now_ms)) {
        return false;
    }
    relief->looked_at = live;
    return true;
}

void pw_relief_looked(struct pw_relief *relief, uint64_t room, uint64_t live, uint64_t now_ms) {
    relief->plenty_below = live + room / PLENTY_PART;
    relief->plenty_since = now_ms;
}

static uint64_t margin(uint64_t live) {
    uint64_t part = live / MARGIN_PART;
    return part < LEAST_MARGIN ? LEAST_MARGIN : part > MOST_MARGIN ? MOST_MARGIN : part;
}

bool pw_relief_is_short(uint64_t room, uint64_t warm, uint64_t request, uint64_t live) {
    uint64_t fresh = request > warm ? request - warm : 0;
    return room < fresh + margin(live);
}

bool pw_relief_ask(struct pw_relief *relief, uint64_t live, uint64_t swap, uint64_t now) {
    if (relief->began == 0) {
        relief->began = now;
    }
    relief->is_deadly = swap < MOST_MARGIN;
    bool affordable = relief->spent <= (now - relief->began) / SPENDING_PART;
    if (relief->asked_at != 0 || (!affordable && !relief->is_deadly)) {
        return false;
    }
    relief->asked_at = now ? now : 1;
    relief->before = live;
    return true;
}

uint64_t pw_relief_ended(struct pw_relief *relief, uint64_t live, uint64_t now) {
    uint64_t freed = relief->before > live ? relief->before - live : 0;
    relief->spent += now - relief->asked_at;
    relief->asked_at = 0;
    if (relief->is_deadly || freed >= relief->before / FRUITFUL_PART) {
        relief->fruitless = 0;
    } else if (relief->fruitless < MOST_FRUITLESS) {
        relief->fruitless++;
    }
    pw_relief_collected(relief, live);
    return freed;
}

void pw_relief_collected(struct pw_relief *relief, uint64_t live) {
    relief->after = relief->looked_at = live;
}
