// The golden vectors on the wire: the scripted peer (tests/peer) plays them to a client.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
  const char *data;
  size_t len;
} text;

typedef enum call {
  CALL_SET,
  CALL_GET,
  CALL_GET_MANY,
  CALL_DEL,
  CALL_VDEL,
  CALL_SCAN,
  CALL_OBSERVE,
  CALL_NEXT,
  CALL_STOP,
  CALL_COUNTERS
} call;

// A call, and what it gives in the words of play_action().
typedef struct action {
  const char *name;
  // The client id of a new connection on which this is the first call; or NULL.
  const char *client_id;
  call call_;
  // Or the pattern of a scan, or several keys of one byte each.
  text key;
  text value;
  uint32_t condition;
  uint64_t expires_in_ms;
  bool persist;
  // Or NULL.
  const char *fencing_token;
  const char *gives;
  // A part of the error's message; or NULL.
  const char *says;
} action;

typedef struct play {
  const char *name;
  const action *actions;
  size_t count;
} play;

#include "wire.h"

// What a call gave: a word and its members, bytes in hexadecimal.
typedef struct outcome {
  char text[512];
  size_t len;
} outcome;

static void say(outcome *outcome, const char *word) {
  size_t room = sizeof outcome->text - outcome->len;
  int written = snprintf(outcome->text + outcome->len, room, "%s%s", outcome->len > 0 ? " " : "", word);
  CHECK(written >= 0 && (size_t)written < room);
  outcome->len += (size_t)written;
}

static void say_number(outcome *outcome, uint64_t number) {
  char digits[24];
  snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
  say(outcome, digits);
}

static void say_bytes(outcome *outcome, sst_slice slice) {
  char bytes[64], digits[2 * sizeof bytes + 1] = "";
  size_t i;
  copy_text(slice, bytes);
  for (i = 0; i < slice.len; ++i) snprintf(digits + 2 * i, 3, "%02x", (unsigned)(unsigned char)bytes[i]);
  say(outcome, digits);
}

// Frees the version.
static void say_version(outcome *outcome, sst_hlc *version) {
  CHECK(version != NULL);
  say(outcome, sst_hlc_text(version));
  sst_hlc_free(version);
}

// Frees the error.
static void say_error(outcome *outcome, const action *action, sst_error *error) {
  const char *message = sst_error_message(error);
  if (action->says == NULL || strstr(message, action->says) == NULL) fprintf(stderr, "%s: %s\n", action->name, message);
  CHECK(action->says == NULL || strstr(message, action->says) != NULL);
  say(outcome, "error");
  say(outcome, sst_status_name((int32_t)sst_error_status(error)));
  say(outcome, sst_error_outcome(error) == SST_NOT_DONE ? "not_done" : "unknown");
  say(outcome, sst_error_is_retryable(error) ? "retryable" : "final");
  sst_error_free(error);
}

static sst_error *play_set(sst_client *client, const action *action, outcome *outcome) {
  sst_set_options options;
  sst_set_result result = SST_SET_FAILED;
  sst_hlc *token = NULL, *version = NULL;
  sst_error *error = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.condition = action->condition;
  options.expires_in_ms = action->expires_in_ms;
  options.persist = action->persist;
  if (action->fencing_token != NULL) {
    EXPECT(SST_OK, sst_hlc_parse(action->fencing_token, strlen(action->fencing_token), &token, &error));
    options.fencing_token = token;
  }
  if (sst_set(client, action->key.data, action->key.len, action->value.data, action->value.len, &options, &result, &version,
              &error) == SST_OK) {
    say(outcome, result == SST_SET_APPLIED ? "applied" : "not_applied");
    say_version(outcome, version);
  }
  sst_hlc_free(token);
  return error;
}

static sst_error *play_get(sst_client *client, const action *action, outcome *outcome) {
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  if (sst_get(client, action->key.data, action->key.len, NULL, &entry, &error) != SST_OK) return error;
  if (entry == NULL) {
    say(outcome, "absent");
    return NULL;
  }
  EXPECT(SST_OK, sst_entry_version(entry, &version, &error));
  say(outcome, "value");
  say_version(outcome, version);
  say_bytes(outcome, sst_entry_value(entry));
  sst_entry_free(entry);
  return NULL;
}

static sst_error *play_get_many(sst_client *client, const action *action, outcome *outcome) {
  sst_slice keys[8];
  sst_entries *entries = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  size_t i;
  memset(keys, 0, sizeof keys);
  CHECK(action->key.len <= sizeof keys / sizeof keys[0]);
  for (i = 0; i < action->key.len; ++i) {
    keys[i].data = action->key.data + i;
    keys[i].len = 1;
  }
  if (sst_get_many(client, keys, action->key.len, NULL, &entries, &error) != SST_OK) return error;
  say(outcome, "entries");
  say(outcome, sst_entries_is_snapshot(entries) ? "snapshot" : "separate");
  for (i = 0; i < sst_entries_len(entries); ++i) {
    EXPECT(SST_OK, sst_entries_at(entries, i, &entry, &error));
    if (entry == NULL) {
      say(outcome, "absent");
      continue;
    }
    EXPECT(SST_OK, sst_entry_version(entry, &version, &error));
    say_version(outcome, version);
    say_bytes(outcome, sst_entry_value(entry));
    sst_entry_free(entry);
  }
  sst_entries_free(entries);
  return NULL;
}

static sst_error *play_del(sst_client *client, const action *action, outcome *outcome) {
  sst_del_result result = SST_DEL_FAILED;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  sst_status status =
      action->call_ == CALL_DEL
          ? sst_del(client, action->key.data, action->key.len, NULL, &result, &version, &error)
          : sst_vdel(client, action->key.data, action->key.len, action->value.data, action->value.len, NULL, &result, &version, &error);
  if (status == SST_OK) say(outcome, result == SST_DEL_DELETED ? "deleted" : result == SST_DEL_ABSENT ? "absent" : "mismatch");
  if (version != NULL) say_version(outcome, version);
  return error;
}

static sst_error *play_scan(sst_client *client, const action *action, outcome *outcome) {
  sst_scan *scan = NULL;
  sst_bytes *key = NULL;
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_scan_new(client, action->key.data, action->key.len, NULL, &scan, &error));
  while (sst_scan_next(scan, &key, &error) == SST_OK && key != NULL) {
    if (outcome->len == 0) say(outcome, "keys");
    say_bytes(outcome, sst_bytes_slice(key));
    sst_bytes_free(key);
  }
  if (error == NULL && outcome->len == 0) say(outcome, "keys");
  sst_scan_free(scan);
  return error;
}

static sst_error *play_next(sst_observer *observer, outcome *outcome) {
  sst_observation *observation = NULL;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  sst_observation_kind kind;
  if (sst_observer_next(observer, 30000, &observation, &error) != SST_OK) return error;
  kind = sst_observation_kind_of(observation);
  EXPECT(SST_OK, sst_observation_version(observation, &version, &error));
  say(outcome, kind == SST_OBSERVED_SET ? "set" : kind == SST_OBSERVED_DELETED ? "deleted" : "something else");
  say_version(outcome, version);
  if (kind == SST_OBSERVED_SET) say_bytes(outcome, sst_observation_value(observation));
  sst_observation_free(observation);
  return NULL;
}

static void play_counters(sst_client *client, outcome *outcome) {
  sst_counters counters;
  sst_error *error = NULL;
  counters.size = sizeof counters;
  EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  say(outcome, "counters");
  say_number(outcome, counters.notifications);
  say_number(outcome, counters.stale_notifications);
  say_number(outcome, counters.malformed_messages);
}

static void play_action(sst_client *client, sst_observer **observer, const action *action) {
  outcome outcome = {"", 0};
  sst_error *error = NULL;
  switch (action->call_) {
    case CALL_SET: error = play_set(client, action, &outcome); break;
    case CALL_GET: error = play_get(client, action, &outcome); break;
    case CALL_GET_MANY: error = play_get_many(client, action, &outcome); break;
    case CALL_DEL:
    case CALL_VDEL: error = play_del(client, action, &outcome); break;
    case CALL_SCAN: error = play_scan(client, action, &outcome); break;
    case CALL_OBSERVE:
      if (sst_observe(client, action->key.data, action->key.len, NULL, observer, &error) == SST_OK) say(&outcome, "observing");
      break;
    case CALL_NEXT: error = play_next(*observer, &outcome); break;
    case CALL_STOP:
      sst_observer_free(*observer);
      *observer = NULL;
      say(&outcome, "stopped");
      break;
    case CALL_COUNTERS: play_counters(client, &outcome); break;
  }
  if (error != NULL) say_error(&outcome, action, error);
  if (strcmp(outcome.text, action->gives) != 0) {
    fprintf(stderr, "%s: expected '%s', got '%s'\n", action->name, action->gives, outcome.text);
    exit(1);
  }
}

static sst_client *connect_to(const char *url, const char *client_id) {
  sst_settings settings;
  sst_client *client = NULL;
  sst_error *error = NULL;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.client_id = client_id;
  EXPECT(SST_OK, sst_connect(url, &settings, &client, &error));
  return client;
}

static void play_all(const play *play) {
  const char *const command[] = {"python3", peer, play->name, NULL};
  const program stage = start_program(command);
  sst_client *client = NULL;
  sst_observer *observer = NULL;
  size_t i;
  for (i = 0; i < play->count; ++i) {
    const action *action = &play->actions[i];
    if (action->client_id != NULL) {
      if (client != NULL) end_client(client);
      client = connect_to(stage.url, action->client_id);
    }
    play_action(client, &observer, action);
  }
  end_client(client);
  // It says on standard error what it missed.
  CHECK(end_program(&stage) == 0);
}

void suite_wire(void) {
  size_t i;
  for (i = 0; i < sizeof all_plays / sizeof all_plays[0]; ++i) play_all(&all_plays[i]);
}
