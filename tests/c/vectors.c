// The golden vectors, as far as they concern what the C interface shows: kinds of errors, reasons of ends, timestamps, patterns.
#include "harness.h"
#include "tables.h"

#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void error_kinds(void) {
  size_t i;
  CHECK(COUNT(kinds) > 30);
  for (i = 0; i < COUNT(kinds); ++i) CHECK(strcmp(sst_status_name(kinds[i].code), kinds[i].name) == 0);
}

static void lost_reasons(void) {
  size_t i;
  CHECK(COUNT(endings) >= 7);
  for (i = 0; i < COUNT(endings); ++i) CHECK(strcmp(sst_lost_reason_word(endings[i].code), endings[i].word) == 0);
  CHECK(strcmp(sst_lost_reason_word(SST_LOST_TAKEN_OVER), "taken_over") == 0);
  CHECK(strcmp(sst_lost_reason_word(SST_NOT_LOST), "not_lost") == 0 && strcmp(sst_lost_reason_word(-1), "unknown") == 0);
}

// The name, and whether it can be tried again, of an error that really happened.
static void a_real_error(void) {
  sst_client *client = NULL;
  sst_error *error = NULL;
  size_t i;
  CHECK(sst_connect("mqtt://127.0.0.1:1", NULL, &client, &error) == SST_UNREACHABLE);
  for (i = 0; i < COUNT(kinds); ++i) {
    if (kinds[i].code == (int)sst_error_status(error)) CHECK(sst_error_is_retryable(error) == kinds[i].is_retryable);
  }
  CHECK(sst_error_outcome(error) == SST_NOT_DONE);
  sst_error_free(error);
}

static void timestamps(void) {
  sst_error *error = NULL;
  sst_hlc *hlc = NULL, *lower = NULL;
  int32_t order = 0;
  size_t i;
  for (i = 0; i < COUNT(stamps); ++i) {
    sst_status expected = stamps[i].is_good ? SST_OK : SST_INVALID_ARGUMENT;
    EXPECT(expected, sst_hlc_parse(stamps[i].given.data, stamps[i].given.len, &hlc, &error));
    CHECK((hlc != NULL) == stamps[i].is_good);
    if (hlc == NULL) continue;
    CHECK(sst_hlc_wall_ms(hlc) == stamps[i].wall_ms && sst_hlc_counter(hlc) == stamps[i].counter);
    CHECK(strlen(sst_hlc_text(hlc)) == stamps[i].written.len);
    CHECK(memcmp(sst_hlc_text(hlc), stamps[i].written.data, stamps[i].written.len) == 0);
    sst_hlc_free(hlc);
  }
  for (i = 0; i + 1 < COUNT(rising); ++i) {
    EXPECT(SST_OK, sst_hlc_parse(rising[i].data, rising[i].len, &lower, &error));
    EXPECT(SST_OK, sst_hlc_parse(rising[i + 1].data, rising[i + 1].len, &hlc, &error));
    EXPECT(SST_OK, sst_hlc_compare(lower, hlc, &order, &error));
    CHECK(order < 0);
    EXPECT(SST_OK, sst_hlc_compare(hlc, lower, &order, &error));
    CHECK(order > 0);
    sst_hlc_free(lower);
    sst_hlc_free(hlc);
  }
}

static void patterns(void) {
  sst_error *error = NULL;
  bool matches = false;
  size_t i;
  CHECK(COUNT(globs) > 100);
  for (i = 0; i < COUNT(globs); ++i) {
    EXPECT(SST_OK, sst_pattern_matches(globs[i].pattern.data, globs[i].pattern.len, globs[i].key.data, globs[i].key.len, &matches,
                                       &error));
    CHECK(matches == globs[i].matches);
  }
}

void suite_vectors(void) {
  error_kinds();
  lost_reasons();
  a_real_error();
  timestamps();
  patterns();
}
