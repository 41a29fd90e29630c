// The same load, written by hand over libmosquitto, as one would without our library: `mosquitto PORT [REQUESTS]`. Our keys must be
// there already: run `own` first.
#include <mosquitto.h>
#include <mqtt_protocol.h>

#include "load.h"

static const char request_topic[] = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
static const char response_topic[] = "clients/bench-mosquitto/services/statestore/_any_/command/invoke/response";

static int in_flight;
static uint64_t requests, sent, done, *sent_at;
static uint32_t *latencies;
static uint64_t began;

static void check(int code, const char *what) {
  if (code == MOSQ_ERR_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, mosquitto_strerror(code));
  exit(1);
}

static void send_next(struct mosquitto *client) {
  mosquitto_property *properties = NULL;
  char key[KEY_LEN + 1], payload[64], stamp[64];
  const uint64_t number = sent++;
  uint64_t correlation[2] = {number, 0};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  key_of(number, key);
  const int len = snprintf(payload, sizeof payload, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", KEY_LEN, key);
  snprintf(stamp, sizeof stamp, "%015llu:%05u:bench-mosquitto",
           (unsigned long long)now.tv_sec * 1000u + (unsigned long long)now.tv_nsec / 1000000u, (unsigned)(number % 100000));
  mosquitto_property_add_string(&properties, MQTT_PROP_RESPONSE_TOPIC, response_topic);
  mosquitto_property_add_binary(&properties, MQTT_PROP_CORRELATION_DATA, correlation, sizeof correlation);
  mosquitto_property_add_int32(&properties, MQTT_PROP_MESSAGE_EXPIRY_INTERVAL, 10);
  mosquitto_property_add_string_pair(&properties, MQTT_PROP_USER_PROPERTY, "__ts", stamp);
  mosquitto_property_add_string_pair(&properties, MQTT_PROP_USER_PROPERTY, "__srcId", "bench-mosquitto");
  mosquitto_property_add_string_pair(&properties, MQTT_PROP_USER_PROPERTY, "__protVer", "1.0");
  sent_at[number] = now_ns();
  check(mosquitto_publish_v5(client, NULL, request_topic, len, payload, 1, false, properties), "publish");
  mosquitto_property_free_all(&properties);
}

static void on_message(struct mosquitto *client, void *context, const struct mosquitto_message *message,
                       const mosquitto_property *properties) {
  void *correlation = NULL;
  uint16_t len = 0;
  uint64_t number = 0;
  (void)context;
  if (message->payloadlen < VALUE_LEN || ((const char *)message->payload)[0] != '$') {
    fprintf(stderr, "a bad response: %.*s\n", message->payloadlen, (const char *)message->payload);
    exit(1);
  }
  mosquitto_property_read_binary(properties, MQTT_PROP_CORRELATION_DATA, &correlation, &len, false);
  memcpy(&number, correlation, sizeof number);
  free(correlation);
  latencies[done++] = (uint32_t)(now_ns() - sent_at[number]);
  if (sent < requests) {
    send_next(client);
  } else if (done == requests) {
    report("libmosquitto by hand", in_flight, latencies, requests, now_ns() - began);
    mosquitto_disconnect_v5(client, 0, NULL);
  }
}

static void on_subscribe(struct mosquitto *client, void *context, int id, int count, const int *qos, const mosquitto_property *given) {
  (void)context, (void)id, (void)count, (void)qos, (void)given;
  began = now_ns();
  for (int i = 0; i < in_flight; ++i) send_next(client);
}

static void on_connect(struct mosquitto *client, void *context, int code, int flags, const mosquitto_property *properties) {
  (void)context, (void)flags, (void)properties;
  check(code, "connect");
  check(mosquitto_subscribe_v5(client, NULL, response_topic, 1, 0, NULL), "subscribe");
}

static void run(int port, int at_a_time, uint64_t count) {
  struct mosquitto *client = mosquitto_new("bench-mosquitto", true, NULL);
  in_flight = at_a_time;
  requests = count;
  sent = done = 0;
  mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  // Its default of 20 unacknowledged messages would be the limit otherwise.
  mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM, 1024);
  mosquitto_int_option(client, MOSQ_OPT_RECEIVE_MAXIMUM, 1024);
  mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
  mosquitto_connect_v5_callback_set(client, on_connect);
  mosquitto_subscribe_v5_callback_set(client, on_subscribe);
  mosquitto_message_v5_callback_set(client, on_message);
  check(mosquitto_connect_bind_v5(client, "127.0.0.1", port, 60, NULL, NULL), "connect");
  check(mosquitto_loop_forever(client, -1, 1), "loop");
  mosquitto_destroy(client);
}

int main(int count, char **arguments) {
  const uint64_t all = count > 2 ? strtoull(arguments[2], NULL, 10) : 200000;
  if (count < 2) return 2;
  mosquitto_lib_init();
  latencies = calloc(all, sizeof *latencies);
  sent_at = calloc(all, sizeof *sent_at);
  if (latencies == NULL || sent_at == NULL) return 1;
  run(atoi(arguments[1]), 256, all);
  run(atoi(arguments[1]), 1, all / 10);
  mosquitto_lib_cleanup();
  return 0;
}
