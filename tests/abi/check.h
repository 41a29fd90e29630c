/* Checks: a test ends at the first one that fails. */
#ifndef CHECK_H
#define CHECK_H

#include "statestore.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* How long anything may take before a test fails, in milliseconds. */
#define PATIENCE_MS 20000

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

/* The call succeeds; `error` is the variable that it was given. */
#define OK(call, error) check_status(__FILE__, __LINE__, #call, (call), &(error), SST_OK)

/* The call fails with this status, and says why. */
#define FAILS(call, error, status) check_status(__FILE__, __LINE__, #call, (call), &(error), (status))

void check_failed(const char *file, int line, const char *what);
void check_status(const char *file, int line, const char *call, sst_status status, sst_error **error, sst_status expected);

/* Whether the bytes are those of a text. */
bool is_text(sst_slice slice, const char *text);

/* A latch that is opened as often as it is waited for. */
typedef struct latch latch;
latch *latch_new(void);
void latch_open(latch *latch);
void latch_wait(latch *latch);
void latch_free(latch *latch);

#define TEXT(text) (text), strlen(text)

#endif
