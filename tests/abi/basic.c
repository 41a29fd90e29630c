/* Every verb, blocking. */
#include "check.h"
#include "server.h"


static void versions(void) {
    CHECK(strcmp(sst_version(), SST_VERSION) == 0);
    CHECK(strcmp(sst_status_name(SST_TIMED_OUT), "TimedOut") == 0);
    CHECK(strcmp(sst_status_name(12345), "unknown") == 0);
}

static void values(sst_client *client) {
    sst_error *error = NULL;
    sst_entry *entry = NULL, *copy;
    sst_hlc *stored = NULL, *read = NULL;
    sst_set_result set = SST_SET_FAILED;
    sst_del_result deleted = SST_DEL_FAILED;
    int32_t order = -1;

    OK(sst_get(client, TEXT("key"), NULL, &entry, &error), error);
    CHECK(entry == NULL);
    OK(sst_set(client, TEXT("key"), TEXT("value"), NULL, &set, &stored, &error), error);
    CHECK(set == SST_SET_APPLIED && stored != NULL);
    OK(sst_get(client, TEXT("key"), NULL, &entry, &error), error);
    CHECK(is_text(sst_entry_value(entry), "value"));
    OK(sst_entry_version(entry, &read, &error), error);
    OK(sst_hlc_compare(stored, read, &order, &error), error);
    CHECK(order == 0);
    copy = sst_entry_clone(entry);
    sst_entry_free(entry);
    CHECK(is_text(sst_entry_value(copy), "value"));
    CHECK(sst_entry_value(entry).data == NULL && "it was freed");
    sst_entry_free(copy);
    sst_hlc_free(stored);
    sst_hlc_free(read);

    OK(sst_vdel(client, TEXT("key"), TEXT("other"), NULL, &deleted, &error), error);
    CHECK(deleted == SST_DEL_MISMATCH);
    OK(sst_vdel(client, TEXT("key"), TEXT("value"), NULL, &deleted, &error), error);
    CHECK(deleted == SST_DEL_DELETED);
    OK(sst_del(client, TEXT("key"), NULL, &deleted, &error), error);
    CHECK(deleted == SST_DEL_ABSENT);

    OK(sst_set(client, TEXT("empty"), NULL, 0, NULL, NULL, NULL, NULL), error);
    OK(sst_get(client, TEXT("empty"), NULL, &entry, NULL), error);
    CHECK(entry != NULL && sst_entry_value(entry).len == 0);
    sst_entry_free(entry);
    OK(sst_set(client, "\0\xff", 2, "\0\x80", 2, NULL, NULL, NULL, NULL), error);
    OK(sst_get(client, "\0\xff", 2, NULL, &entry, NULL), error);
    CHECK(sst_entry_value(entry).len == 2 && memcmp(sst_entry_value(entry).data, "\0\x80", 2) == 0);
    sst_entry_free(entry);
}

static void conditions(sst_client *client) {
    sst_error *error = NULL;
    sst_set_options options = {.size = sizeof options};
    sst_del_options fenced = {.size = sizeof fenced};
    sst_set_result set = SST_SET_FAILED;
    sst_hlc *token = NULL;

    options.condition = SST_IF_ABSENT;
    OK(sst_set(client, TEXT("new"), TEXT("1"), &options, &set, NULL, &error), error);
    CHECK(set == SST_SET_APPLIED);
    OK(sst_set(client, TEXT("new"), TEXT("2"), &options, &set, NULL, &error), error);
    CHECK(set == SST_SET_NOT_APPLIED);
    options.condition = SST_IF_ABSENT_OR_EQUAL;
    OK(sst_set(client, TEXT("new"), TEXT("1"), &options, &set, &token, &error), error);
    CHECK(set == SST_SET_APPLIED);
    options.condition = SST_ALWAYS;
    options.fencing_token = token;
    OK(sst_set(client, TEXT("new"), TEXT("3"), &options, &set, NULL, &error), error);
    FAILS(sst_set(client, TEXT("new"), TEXT("4"), NULL, &set, NULL, &error), error, SST_FENCING_TOKEN_REQUIRED);
    CHECK(set == SST_SET_FAILED);
    fenced.fencing_token = token;
    OK(sst_del(client, TEXT("new"), &fenced, NULL, &error), error);
    sst_hlc_free(token);
}

static void many(sst_client *client) {
    sst_error *error = NULL;
    sst_slice keys[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    sst_entries *entries = NULL;
    sst_entry *entry = NULL;
    OK(sst_set(client, "a", 1, "1", 1, NULL, NULL, NULL, &error), error);
    OK(sst_set(client, "c", 1, "3", 1, NULL, NULL, NULL, &error), error);
    OK(sst_get_many(client, keys, 3, NULL, &entries, &error), error);
    CHECK(sst_entries_len(entries) == 3);
    OK(sst_entries_at(entries, 0, &entry, &error), error);
    CHECK(is_text(sst_entry_value(entry), "1"));
    sst_entry_free(entry);
    OK(sst_entries_at(entries, 1, &entry, &error), error);
    CHECK(entry == NULL);
    FAILS(sst_entries_at(entries, 3, &entry, &error), error, SST_INVALID_ARGUMENT);
    sst_entries_free(entries);
    OK(sst_get_many(client, NULL, 0, NULL, &entries, &error), error);
    CHECK(entries != NULL && sst_entries_len(entries) == 0);
    sst_entries_free(entries);
}

static void state(sst_client *client) {
    sst_error *error = NULL;
    sst_state now = SST_STATE_UNKNOWN;
    sst_bytes *id = NULL;
    sst_counters counters = {.size = sizeof counters};
    OK(sst_client_state(client, &now, &error), error);
    CHECK(now == SST_CONNECTED);
    OK(sst_client_id(client, &id, &error), error);
    CHECK(sst_bytes_slice(id).len > 0);
    sst_bytes_free(id);
    OK(sst_client_counters(client, &counters, &error), error);
    CHECK(counters.sent > 10 && counters.completed == counters.sent && counters.queued == 0);
}

static void timestamps(void) {
    sst_error *error = NULL;
    sst_hlc *low = NULL, *high = NULL, *copy;
    int32_t order = 0;
    bool matches = false;
    OK(sst_hlc_parse(TEXT("7:9:node"), &low, &error), error);
    CHECK(sst_hlc_wall_ms(low) == 7 && sst_hlc_counter(low) == 9);
    CHECK(strcmp(sst_hlc_text(low), "000000000000007:00009:node") == 0);
    OK(sst_hlc_parse(TEXT("7:10:node"), &high, &error), error);
    OK(sst_hlc_compare(low, high, &order, &error), error);
    CHECK(order < 0);
    OK(sst_hlc_compare(high, low, &order, &error), error);
    CHECK(order > 0);
    copy = sst_hlc_clone(low);
    sst_hlc_free(low);
    CHECK(sst_hlc_counter(copy) == 9);
    sst_hlc_free(copy);
    sst_hlc_free(high);
    FAILS(sst_hlc_parse(TEXT("7:9"), &low, &error), error, SST_INVALID_ARGUMENT);
    CHECK(low == NULL);
    OK(sst_pattern_matches(TEXT("a*[0-9]"), TEXT("abc7"), &matches, &error), error);
    CHECK(matches);
    OK(sst_pattern_matches(TEXT("a?"), TEXT("abc"), &matches, &error), error);
    CHECK(!matches);
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    versions();
    values(client);
    conditions(client);
    many(client);
    state(client);
    timestamps();
    disconnect(client);
    server_stop(server);
    return 0;
}
