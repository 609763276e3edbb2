// SPDX-License-Identifier: MIT
//
// R's objects as its collector sees them: nodes. The layout is that of R 4.2, 4.5 and 4.6 on 64-bit
// machines (Defn.h and memory.c of their sources); layout.c believes it only after it has tried it.
#ifndef PW_RUNTIME_R_NODE_H
#define PW_RUNTIME_R_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pw_r_node {
    uint64_t info;
    struct pw_r_node *attributes, *next, *previous;
    struct pw_r_node *fields[3]; // of nodes that are no vectors
};

struct pw_r_vector { // attributes are its node's; data follow
    uint64_t info;
    struct pw_r_node *attributes, *next, *previous;
    int64_t length, true_length;
    struct pw_r_node *elements[];
};

enum pw_r_type {
    PW_R_NIL = 0,
    PW_R_SYMBOL = 1,
    PW_R_PAIRLIST = 2,
    PW_R_CLOSURE = 3,
    PW_R_ENVIRONMENT = 4,
    PW_R_PROMISE = 5,
    PW_R_CALL = 6,
    PW_R_SPECIAL = 7,
    PW_R_BUILTIN = 8,
    PW_R_STRING = 9, // one; a vector of them is PW_R_STRINGS
    PW_R_LOGICAL = 10,
    PW_R_INTEGER = 13,
    PW_R_REAL = 14,
    PW_R_COMPLEX = 15,
    PW_R_STRINGS = 16,
    PW_R_DOTS = 17,
    PW_R_LIST = 19,
    PW_R_EXPRESSION = 20,
    PW_R_BYTE_CODE = 21,
    PW_R_EXTERNAL_POINTER = 22,
    PW_R_WEAK_REFERENCE = 23,
    PW_R_RAW = 24,
    PW_R_S4 = 25,
};

#define PW_R_GENERATIONS   2u
#define PW_R_OLDEST        1u
#define PW_R_CLASSES       8u
#define PW_R_SMALL_CLASSES 6u // the others are blocks of their own, each a large vector

static inline unsigned pw_r_type(const struct pw_r_node *node) {
    return node->info & 31;
}

static inline bool pw_r_is_alternative(const struct pw_r_node *node) { // ALTREP
    return node->info >> 7 & 1;
}

#define PW_R_MARK ((uint64_t)1 << 24)
static inline bool pw_r_is_marked(const struct pw_r_node *node) {
    return (node->info & PW_R_MARK) != 0;
}

static inline unsigned pw_r_generation(const struct pw_r_node *node) {
    return node->info >> 28 & 1;
}

static inline unsigned pw_r_class(const struct pw_r_node *node) {
    return node->info >> 29 & 7;
}

static inline unsigned pw_r_references(const struct pw_r_node *node) {
    return node->info >> 32 & 0xffff;
}

// A full collection alone would look at it.
static inline bool pw_r_is_oldest(const struct pw_r_node *node) {
    return pw_r_is_marked(node) && pw_r_generation(node) == PW_R_OLDEST;
}

// In its first field, as what is left of the header tells: a binding of compiled code, or, from
// R 4.5 on, a promise that has its value.
static inline bool pw_r_holds_number(const struct pw_r_node *cell) {
    return cell->info >> 48 != 0;
}

static inline struct pw_r_vector *pw_r_as_vector(struct pw_r_node *node) {
    return (struct pw_r_vector *)node;
}

// Strings are chained through their attributes in R's cache of them: such a chain keeps none alive.
static inline bool pw_r_has_attributes(const struct pw_r_node *node) {
    return node->attributes &&
           (pw_r_type(node) != PW_R_STRING || pw_r_type(node->attributes) != PW_R_STRING);
}

typedef void pw_r_visit(void *context, struct pw_r_node *child);

static inline void pw_r_visit_one(pw_r_visit *visit, void *context, struct pw_r_node *child) {
    if (child) {
        visit(context, child);
    }
}

static inline void pw_r_visit_elements(struct pw_r_node *node, pw_r_visit *visit, void *context) {
    struct pw_r_vector *vector = pw_r_as_vector(node);
    for (int64_t i = 0; i < vector->length; i++) {
        pw_r_visit_one(visit, context, vector->elements[i]);
    }
}

// Every node that this one keeps alive, as DO_CHILDREN of memory.c. False: an unknown type.
static inline bool pw_r_each_child(struct pw_r_node *node, pw_r_visit *visit, void *context) {
    unsigned type = pw_r_type(node);
    if (pw_r_has_attributes(node)) {
        visit(context, node->attributes);
    }
    bool all = pw_r_is_alternative(node);
    switch (all ? PW_R_CLOSURE : type) {
    case PW_R_NIL:
    case PW_R_SPECIAL:
    case PW_R_BUILTIN:
    case PW_R_STRING:
    case PW_R_LOGICAL:
    case PW_R_INTEGER:
    case PW_R_REAL:
    case PW_R_COMPLEX:
    case PW_R_RAW:
    case PW_R_S4:
    case PW_R_WEAK_REFERENCE: // its key does not live through it
        return true;
    case PW_R_STRINGS:
    case PW_R_LIST:
    case PW_R_EXPRESSION:
        pw_r_visit_elements(node, visit, context);
        return true;
    case PW_R_PAIRLIST:
    case PW_R_PROMISE:
        if (!pw_r_holds_number(node)) {
            pw_r_visit_one(visit, context, node->fields[0]);
        }
        break;
    case PW_R_EXTERNAL_POINTER:
        break; // the first field is an address
    case PW_R_SYMBOL:
    case PW_R_CLOSURE:
    case PW_R_ENVIRONMENT:
    case PW_R_CALL:
    case PW_R_DOTS:
    case PW_R_BYTE_CODE:
        pw_r_visit_one(visit, context, node->fields[0]);
        break;
    default:
        return false;
    }
    pw_r_visit_one(visit, context, node->fields[1]);
    pw_r_visit_one(visit, context, node->fields[2]);
    return true;
}

// --- the collector's lists are circular -------------------------------------------

static inline bool pw_r_is_linked(const struct pw_r_node *node) {
    return node->previous->next == node && node->next->previous == node;
}

static inline void pw_r_unlink(struct pw_r_node *node) {
    node->previous->next = node->next;
    node->next->previous = node->previous;
}

static inline void pw_r_link_before(struct pw_r_node *node, struct pw_r_node *peg) {
    node->next = peg;
    node->previous = peg->previous;
    peg->previous->next = node;
    peg->previous = node;
}

static inline void pw_r_link_to_itself(struct pw_r_node *node) {
    node->next = node->previous = node;
}

#endif
