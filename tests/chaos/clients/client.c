/* The client in C: does what lines on standard input tell it; see `tests/chaos/src/peer_line.rs`. Each call has a thread of its own, in
 * which it blocks; observers call back. */
#include <inttypes.h>
#include <pthread.h>
#include <statestore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024
#define WORDS 8

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static sst_client *clients[MOST];

/* An observer, by the number of the call that made it. */
static struct followed {
  uint64_t id;
  sst_observer *observer;
  sst_subscription *subscription;
  bool is_wanted;
} *followed[MOST];

/* A line to be said. */
struct told {
  char text[2048];
  size_t len;
};

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void give_up(const char *why) {
  fprintf(stderr, "client.c: %s\n", why);
  _exit(1);
}

/* Adds `"name":"text"`, or nothing for NULL. The text is ASCII, but for some texts of errors, which only people read. */
static void add(struct told *told, const char *name, const char *text, size_t len) {
  if (text == NULL) return;
  told->len += (size_t)snprintf(told->text + told->len, sizeof told->text - told->len, ",\"%s\":\"", name);
  if (told->len + 6 * len + 2 >= sizeof told->text) give_up("too long for a line");
  for (size_t i = 0; i < len; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
      told->len += (size_t)sprintf(told->text + told->len, "\\u%04x", c);
    } else {
      told->text[told->len++] = (char)c;
    }
  }
  told->text[told->len++] = '"';
  told->text[told->len] = '\0';
}

static void add_word(struct told *told, const char *name, const char *word) { add(told, name, word, strlen(word)); }

static void add_number(struct told *told, const char *name, uint64_t number) {
  told->len += (size_t)snprintf(told->text + told->len, sizeof told->text - told->len, ",\"%s\":%" PRIu64, name, number);
}

/* Adds a version, and frees it. */
static void add_version(struct told *told, const char *name, sst_hlc *version) {
  if (version != NULL) add_word(told, name, sst_hlc_text(version));
  sst_hlc_free(version);
}

/* The first comma is the brace that opens. */
static void say(struct told *told) {
  told->text[0] = '{';
  pthread_mutex_lock(&output);
  printf("%s}\n", told->text);
  fflush(stdout);
  pthread_mutex_unlock(&output);
}

/* Whether it succeeded. Otherwise says why not, and frees the error. The error is read here, after the call that is the argument
 * before it. */
static bool is_ok(struct told *told, sst_status status, sst_error **at) {
  if (status == SST_OK) return true;
  sst_error *error = *at;
  add_word(told, "told", "error");
  add_word(told, "kind", sst_status_name((int32_t)status));
  add_word(told, "outcome", sst_error_outcome(error) == SST_NOT_DONE ? "not_done" : "unknown");
  const char *text = sst_error_message(error);
  add(told, "text", text, strnlen(text, 200));
  sst_error_free(error);
  return false;
}

static sst_client *client_of(const char *name) {
  pthread_mutex_lock(&table);
  sst_client *client = clients[atoi(name) % MOST];
  pthread_mutex_unlock(&table);
  if (client == NULL) give_up("no such client");
  return client;
}

static void connect_one(struct told *told, const char *name, const char *url, const char *authority) {
  sst_settings settings = {
      .size = sizeof settings,
      .ca_file = strcmp(authority, "-") == 0 ? NULL : authority,
      .session_expiry_ms = 60000,
      .keep_alive_ms = 1000,
      .ping_timeout_ms = 1000,
      .connect_timeout_ms = 2000,
      .request_timeout_ms = 5000,
      .reconnect_delay_min_ms = 10,
      .reconnect_delay_max_ms = 200,
  };
  sst_client *client = NULL;
  sst_error *error = NULL;
  if (!is_ok(told, sst_connect(url, &settings, &client, &error), &error)) return;
  pthread_mutex_lock(&table);
  clients[atoi(name) % MOST] = client;
  pthread_mutex_unlock(&table);
  add_word(told, "told", "connected");
}

static void close_one(struct told *told, const char *name) {
  sst_error *error = NULL;
  sst_client *client = client_of(name);
  pthread_mutex_lock(&table);
  clients[atoi(name) % MOST] = NULL;
  pthread_mutex_unlock(&table);
  if (is_ok(told, sst_client_close(client, &error), &error)) add_word(told, "told", "closed");
  sst_client_free(client);
}

static void get(struct told *told, const sst_client *client, const char *key) {
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  if (!is_ok(told, sst_get(client, key, strlen(key), NULL, &entry, &error), &error)) return;
  add_word(told, "told", entry == NULL ? "none" : "entry");
  if (entry != NULL) {
    const sst_slice value = sst_entry_value(entry);
    add(told, "value", value.data, value.len);
    if (sst_entry_version(entry, &version, &error) != SST_OK) give_up("an entry has a version");
    add_version(told, "version", version);
  }
  sst_entry_free(entry);
}

static void set(struct told *told, const sst_client *client, const char *key, const char *value, const char *condition) {
  sst_set_options options = {.size = sizeof options};
  sst_set_result result;
  sst_hlc *version = NULL, *wanted = NULL;
  sst_error *error = NULL;
  if (strcmp(condition, "if_absent") == 0) options.condition = SST_IF_ABSENT;
  if (strcmp(condition, "if_absent_or_equal") == 0) options.condition = SST_IF_ABSENT_OR_EQUAL;
  if (condition[0] == '=' && sst_hlc_parse(condition + 1, strlen(condition + 1), &wanted, &error) != SST_OK) give_up("no version");
  options.if_version = wanted;
  const sst_status status = sst_set(client, key, strlen(key), value, strlen(value), &options, &result, &version, &error);
  sst_hlc_free(wanted);
  if (!is_ok(told, status, &error)) return;
  add_word(told, "told", result == SST_SET_APPLIED ? "applied" : "not_applied");
  add_version(told, "version", version);
}

/* DEL, or VDEL if there is a value. */
static void del(struct told *told, const sst_client *client, const char *key, const char *value) {
  sst_del_result result;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  const sst_status status =
      value == NULL ? sst_del(client, key, strlen(key), NULL, &result, &version, &error)
                    : sst_vdel(client, key, strlen(key), value, strlen(value), NULL, &result, &version, &error);
  if (!is_ok(told, status, &error)) return;
  const char *words[] = {[SST_DEL_DELETED] = "deleted", [SST_DEL_ABSENT] = "absent", [SST_DEL_MISMATCH] = "mismatch"};
  add_word(told, "told", words[result]);
  add_version(told, "version", version);
}

static uint32_t one_more(void *context, const sst_entry *old, sst_bytes **value) {
  (void)context;
  char text[32] = "0";
  if (old != NULL) {
    const sst_slice was = sst_entry_value(old);
    if (was.len >= sizeof text) give_up("no number");
    memcpy(text, was.data, was.len);
    text[was.len] = '\0';
  }
  const int len = snprintf(text, sizeof text, "%llu", strtoull(text, NULL, 10) + 1);
  if (sst_bytes_new(text, (size_t)len, value, NULL) != SST_OK) give_up("no memory");
  return SST_STORE;
}

static void count(struct told *told, const sst_client *client, const char *key) {
  sst_update_result result;
  sst_hlc *version = NULL;
  sst_error *error = NULL;
  const sst_changer changer = {.call = one_more};
  if (!is_ok(told, sst_update(client, key, strlen(key), NULL, changer, &result, &version, &error), &error)) return;
  add_word(told, "told", "applied");
  add_version(told, "version", version);
}

/* The time is read before the guard is asked: when it said yes, it held the lock at least since then. */
static void hold(struct told *told, const sst_client *client, const char *name, const char *lease_ms, const char *wait_ms,
                 const char *hold_ms) {
  const sst_lease_options lease = {.size = sizeof lease, .duration_ms = strtoull(lease_ms, NULL, 10)};
  const sst_lock_options options = {.size = sizeof options, .lease = &lease, .wait_ms = strtoull(wait_ms, NULL, 10)};
  sst_guard *guard = NULL;
  sst_hlc *token = NULL;
  sst_error *error = NULL;
  sst_release released;
  if (!is_ok(told, sst_lock(client, name, strlen(name), &options, &guard, &error), &error)) return;
  const uint64_t from = now(), end = from + strtoull(hold_ms, NULL, 10) * 1000000u;
  uint64_t until = from;
  for (;;) {
    const uint64_t asked = now();
    if (asked > end || !sst_guard_is_valid(guard)) break;
    until = asked;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  if (sst_guard_token(guard, &token, &error) != SST_OK) give_up("a guard has a token");
  add_word(told, "told", "held");
  add_version(told, "token", token);
  add_number(told, "held_from", from);
  add_number(told, "held_until", until);
  /* If it cannot be released, its lease ends. */
  if (sst_guard_release(guard, SST_FOREVER, &released, &error) != SST_OK) sst_error_free(error);
  sst_guard_free(guard);
}

static void observed(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  const struct followed *follows = context;
  struct told told = {.len = 0};
  sst_hlc *version = NULL;
  add_number(&told, "observes", follows->id);
  if (status != SST_OK) {
    if (!__atomic_load_n(&follows->is_wanted, __ATOMIC_ACQUIRE)) return;
    add_word(&told, "told", "ended");
    const char *text = error == NULL ? sst_status_name((int32_t)status) : sst_error_message(error);
    add(&told, "text", text, strnlen(text, 200));
    return say(&told);
  }
  switch (sst_observation_kind_of(observation)) {
    case SST_OBSERVED_SET: {
      const sst_slice value = sst_observation_value(observation);
      add_word(&told, "told", "set");
      add(&told, "value", value.data, value.len);
      break;
    }
    case SST_OBSERVED_DELETED: add_word(&told, "told", "deleted"); break;
    case SST_OBSERVED_RESYNC: add_word(&told, "told", "resync"); break;
    default: add_word(&told, "told", "lagged"); break;
  }
  if (sst_observation_kind_of(observation) <= SST_OBSERVED_DELETED) {
    sst_error *none = NULL;
    if (sst_observation_version(observation, &version, &none) == SST_OK) add_version(&told, "version", version);
    sst_error_free(none);
  }
  say(&told);
}

/* Nobody is called any more. */
static void forgotten(void *context) { free(context); }

static void observe(struct told *told, const sst_client *client, uint64_t id, const char *key) {
  sst_observer *observer = NULL;
  sst_subscription *subscription = NULL;
  sst_error *error = NULL;
  if (!is_ok(told, sst_observe(client, key, strlen(key), NULL, &observer, &error), &error)) return;
  struct followed *follows = calloc(1, sizeof *follows);
  if (follows == NULL) give_up("no memory");
  *follows = (struct followed){.id = id, .observer = observer, .is_wanted = true};
  const sst_on_observation callback = {.context = follows, .call = observed, .drop = forgotten};
  if (sst_observer_subscribe(observer, callback, &subscription, &error) != SST_OK) give_up(sst_error_message(error));
  follows->subscription = subscription;
  pthread_mutex_lock(&table);
  size_t place = 0;
  while (place < MOST && followed[place] != NULL) ++place;
  if (place == MOST) give_up("too many observers");
  followed[place] = follows;
  pthread_mutex_unlock(&table);
  add_word(told, "told", "observing");
}

static void forget(struct told *told, uint64_t id) {
  struct followed *follows = NULL;
  pthread_mutex_lock(&table);
  for (size_t place = 0; place < MOST; place++) {
    if (followed[place] == NULL || followed[place]->id != id) continue;
    follows = followed[place];
    followed[place] = NULL;
  }
  pthread_mutex_unlock(&table);
  if (follows == NULL) give_up("no such observer");
  __atomic_store_n(&follows->is_wanted, false, __ATOMIC_RELEASE);
  /* Once the subscription is freed, the context may be as well. */
  sst_observer *observer = follows->observer;
  sst_subscription *subscription = follows->subscription;
  sst_observer_free(observer);
  sst_subscription_free(subscription);
  add_word(told, "told", "closed");
}

static void act(struct told *told, uint64_t id, char *words[WORDS], size_t count_of) {
  const char *verb = words[1], *name = words[2], *key = words[3];
  if (strcmp(verb, "connect") == 0 && count_of == 5) return connect_one(told, name, key, words[4]);
  if (strcmp(verb, "close") == 0 && count_of == 3) return close_one(told, name);
  if (strcmp(verb, "forget") == 0 && count_of == 4) return forget(told, strtoull(key, NULL, 10));
  const sst_client *client = client_of(name);
  if (strcmp(verb, "get") == 0 && count_of == 4) return get(told, client, key);
  if (strcmp(verb, "set") == 0 && count_of == 6) return set(told, client, key, words[4], words[5]);
  if (strcmp(verb, "del") == 0 && count_of == 4) return del(told, client, key, NULL);
  if (strcmp(verb, "vdel") == 0 && count_of == 5) return del(told, client, key, words[4]);
  if (strcmp(verb, "count") == 0 && count_of == 4) return count(told, client, key);
  if (strcmp(verb, "hold") == 0 && count_of == 7) return hold(told, client, key, words[4], words[5], words[6]);
  if (strcmp(verb, "observe") == 0 && count_of == 4) return observe(told, client, id, key);
  give_up(verb);
}

static void *answer(void *line) {
  char *words[WORDS] = {NULL}, *rest = NULL;
  size_t count_of = 0;
  for (char *word = strtok_r(line, " \n", &rest); word != NULL && count_of < WORDS; word = strtok_r(NULL, " \n", &rest)) {
    words[count_of++] = word;
  }
  if (count_of < 3) give_up("no words");
  struct told told = {.len = 0};
  const uint64_t id = strtoull(words[0], NULL, 10), from = now();
  add_number(&told, "id", id);
  act(&told, id, words, count_of);
  add_number(&told, "from", from);
  add_number(&told, "to", now());
  say(&told);
  free(line);
  return NULL;
}

int main(void) {
  char *line = NULL;
  size_t room = 0;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&small, 256 * 1024);
  while (getline(&line, &room, stdin) > 0) {
    pthread_t thread;
    char *own = strdup(line);
    if (own == NULL || pthread_create(&thread, &small, answer, own) != 0) give_up("no thread");
  }
  free(line);
  for (size_t i = 0; i < MOST; i++) {
    if (clients[i] == NULL) continue;
    sst_client_close(clients[i], NULL);
    sst_client_free(clients[i]);
  }
  return 0;
}
