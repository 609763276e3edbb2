// SPDX-License-Identifier: MIT
//
// An nginx module whose requests live on transaction heaps: `location /words { words; }` answers
// with the words of the query and how often each occurs.
//
// nginx's own pools are bump regions: what is freed in them stays until the request ends. Here a
// list of words grows and shrinks on memory that is reused at once. A worker serves many requests
// at a time, so each request has a heap to itself. Heaps wait in a list between requests, with
// their memory warm, and the request's pool gives them back when it is destroyed.
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <pagewise_heap.h>

// --- one heap a request ------------------------------------------------------------

typedef struct idle_heap_s idle_heap_t;
struct idle_heap_s {
    idle_heap_t *next;
    struct pw_heap *heap;
};

static idle_heap_t *idle_heaps; // of this worker, which has one thread

static void end_request(void *data) {
    idle_heap_t *entry = data;
    pw_heap_free_all(entry->heap);
    entry->next = idle_heaps;
    idle_heaps = entry;
}

static struct pw_heap *heap_for(ngx_http_request_t *request) {
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(request->pool, 0);
    if (cleanup == NULL) {
        return NULL;
    }
    idle_heap_t *entry = idle_heaps;
    if (entry != NULL) {
        idle_heaps = entry->next;
    } else {
        // 16 MB are more than a query can need: a request that wants more has gone wrong.
        struct pw_heap_options options = {.limit_bytes = 16 << 20, .segment_bytes = 16 << 10};
        entry = ngx_alloc(sizeof *entry, request->connection->log);
        if (entry == NULL || (entry->heap = pw_heap_new(&options)) == NULL) {
            ngx_free(entry);
            return NULL;
        }
    }
    cleanup->handler = end_request;
    cleanup->data = entry;
    return entry->heap;
}

// --- what the request does -------------------------------------------------------------

typedef struct word_s word_t;
struct word_s {
    word_t *next;
    ngx_uint_t count;
    size_t length;
    u_char text[];
};

// One more occurrence of the word in the sorted list. False: no memory.
static bool count_word(struct pw_heap *heap, word_t **words, u_char *text, size_t length) {
    word_t **at = words;
    while (*at != NULL) {
        ngx_int_t order = ngx_memn2cmp(text, (*at)->text, length, (*at)->length);
        if (order == 0) {
            (*at)->count++;
            return true;
        }
        if (order < 0) {
            break;
        }
        at = &(*at)->next;
    }
    word_t *word = pw_heap_alloc_inline(heap, sizeof *word + length);
    if (word == NULL) {
        return false;
    }
    *word = (word_t){.next = *at, .count = 1, .length = length};
    ngx_memcpy(word->text, text, length);
    *at = word;
    return true;
}

static bool count_words(struct pw_heap *heap, ngx_str_t text, word_t **words) {
    u_char *end = text.data + text.len;
    for (u_char *start = text.data; start < end;) {
        u_char *stop = start;
        while (stop < end && *stop != '+' && *stop != '&') {
            stop++;
        }
        if (stop > start && !count_word(heap, words, start, (size_t)(stop - start))) {
            return false;
        }
        start = stop + 1;
    }
    return true;
}

// What is sent must outlive the handler, not the request: the request's pool has it.
static ngx_buf_t *format_words(ngx_http_request_t *request, struct pw_heap *heap, word_t *words) {
    size_t size = 0;
    for (word_t *word = words; word != NULL; word = word->next) {
        size += word->length + NGX_INT_T_LEN + 2;
    }
    ngx_buf_t *buffer = ngx_create_temp_buf(request->pool, size + 1);
    while (words != NULL && buffer != NULL) {
        word_t *next = words->next;
        buffer->last = ngx_cpymem(buffer->last, words->text, words->length);
        buffer->last = ngx_sprintf(buffer->last, " %ui\n", words->count);
        pw_heap_free_inline(heap, words); // not needed; free-all would do it
        words = next;
    }
    return buffer;
}

static ngx_int_t serve(ngx_http_request_t *request) {
    ngx_int_t status = ngx_http_discard_request_body(request);
    if (status != NGX_OK) {
        return status;
    }
    struct pw_heap *heap = heap_for(request);
    word_t *words = NULL;
    if (heap == NULL || !count_words(heap, request->args, &words)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_buf_t *buffer = format_words(request, heap, words);
    if (buffer == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    request->headers_out.status = NGX_HTTP_OK;
    request->headers_out.content_length_n = buffer->last - buffer->pos;
    request->header_only = buffer->last == buffer->pos;
    ngx_str_set(&request->headers_out.content_type, "text/plain");
    status = ngx_http_send_header(request);
    if (status == NGX_ERROR || status > NGX_OK || request->header_only) {
        return status;
    }
    buffer->last_buf = request == request->main;
    ngx_chain_t out = {buffer, NULL};
    return ngx_http_output_filter(request, &out);
}

// --- nginx's side ---------------------------------------------------------------------------

static char *set_words(ngx_conf_t *configuration, ngx_command_t *command, void *unused) {
    (void)command, (void)unused;
    ngx_http_core_loc_conf_t *location =
        ngx_http_conf_get_module_loc_conf(configuration, ngx_http_core_module);
    location->handler = serve;
    return NGX_CONF_OK;
}

static ngx_command_t commands[] = {
    {ngx_string("words"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, set_words, 0, 0, NULL},
    ngx_null_command,
};

static ngx_http_module_t context = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

ngx_module_t ngx_http_words_module = {NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE,
                                      NULL,          NULL,     NULL,     NULL,
                                      NULL,          NULL,     NULL,     NGX_MODULE_V1_PADDING};
