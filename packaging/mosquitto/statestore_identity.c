/* A plugin for Mosquitto 2.0 and newer. It adds the identity of the sender to requests for the state store, for
 * `statestored --attach-identity`. docs/attached.md describes how to build and configure it, and its limits.
 *
 * A message to the request topic gets a user property
 *
 *     statestore-identity: MAC LENGTH CLIENT[ USER]
 *
 * with the client id, its length in bytes, and the user name of the connection. A message that already has a property of this name is
 * rejected (0x87, not authorized). MAC is HMAC-SHA256, in hexadecimal digits, over these fields: client id, user name (empty for none), topic,
 * response topic, correlation data, payload, and name and value of each other user property in their order. The length of each field precedes
 * it, as four bytes in network byte order.
 *
 * Mosquitto does not pass all messages to its plugins: the wills of clients are missing, and with `per_listener_settings` the messages of a
 * bridge. They have no MAC, so the server rejects them. */
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mosquitto.h>
#include <mosquitto_broker.h>
#include <mosquitto_plugin.h>
#include <mqtt_protocol.h>

#define REQUEST "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke"
#define RESPONSES "clients/"
/* End of the response topic of the vendor's Go client, after its id in base 16. */
#define RESPONSE_BEHIND_HEX "/" REQUEST "/response"
#define DEFAULT_PROPERTY "statestore-identity"

/* Minimum and maximum length of a key, in bytes. */
#define LEAST_KEY 32
#define MOST_KEY 1024
/* Maximum length of a string in MQTT, in bytes. */
#define MOST_STRING 65535

struct plugin {
	mosquitto_plugin_id_t *id;
	char *property;
	char *key_file;
	unsigned char key[MOST_KEY];
	size_t key_length;
};

/* A growing buffer. After a failed allocation it does not change any more. */
struct bytes {
	unsigned char *data;
	size_t length, room;
	bool failed;
};

static void append(struct bytes *bytes, const void *data, size_t length)
{
	if (bytes->failed || length == 0)
		return;
	if (length > bytes->room - bytes->length) {
		size_t room = bytes->length + length + bytes->length / 2 + 256;
		unsigned char *grown = realloc(bytes->data, room);
		if (!grown) {
			bytes->failed = true;
			return;
		}
		bytes->data = grown;
		bytes->room = room;
	}
	memcpy(bytes->data + bytes->length, data, length);
	bytes->length += length;
}

static void append_field(struct bytes *bytes, const void *data, size_t length)
{
	const unsigned char head[4] = {
		(unsigned char)(length >> 24), (unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length};
	append(bytes, head, sizeof head);
	append(bytes, data, length);
}

static void append_text(struct bytes *bytes, const char *text)
{
	append_field(bytes, text, strlen(text));
}

/* Returns the text after the id in base 16, or NULL if `text` does not begin with it. */
static const char *behind_hex(const char *text, const char *client)
{
	static const char digits[] = "0123456789ABCDEF";
	for (; *client; client++, text += 2) {
		const unsigned char byte = (unsigned char)*client;
		if (text[0] != digits[byte >> 4] || text[1] != digits[byte & 0xF])
			return NULL;
	}
	return text;
}

/* Returns whether a response topic is `clients/CLIENT/...`, or that of the vendor's Go client. The store reads the client id from the level
 * after `clients/`, so a client whose id has a slash cannot use the first form. */
static bool is_own(const char *response_topic, const char *client)
{
	const size_t prefix = strlen(RESPONSES), length = strlen(client);
	const char *level = response_topic + prefix, *rest;
	if (length == 0 || strncmp(response_topic, RESPONSES, prefix) != 0)
		return false;
	rest = behind_hex(level, client);
	if (rest && strcmp(rest, RESPONSE_BEHIND_HEX) == 0)
		return true;
	return !strchr(client, '/') && strncmp(level, client, length) == 0 && level[length] == '/' && level[length + 1] != '\0';
}

/* Reports whether the publisher set the user property of this plugin. */
static int is_forged(const struct plugin *plugin, const mosquitto_property *list, bool *forged)
{
	*forged = false;
	for (; list && !*forged; list = mosquitto_property_next(list)) {
		char *name = NULL, *value = NULL;
		if (mosquitto_property_identifier(list) != MQTT_PROP_USER_PROPERTY)
			continue;
		if (!mosquitto_property_read_string_pair(list, MQTT_PROP_USER_PROPERTY, &name, &value, false))
			return MOSQ_ERR_NOMEM;
		*forged = strcmp(name, plugin->property) == 0;
		free(name);
		free(value);
	}
	return MOSQ_ERR_SUCCESS;
}

/* Appends the correlation data, the payload and all user properties. */
static void append_content(struct bytes *signed_bytes, const struct mosquitto_evt_message *message)
{
	void *correlation = NULL;
	uint16_t correlation_length = 0;
	mosquitto_property_read_binary(
		message->properties, MQTT_PROP_CORRELATION_DATA, &correlation, &correlation_length, false);
	append_field(signed_bytes, correlation, correlation_length);
	free(correlation);
	append_field(signed_bytes, message->payload, message->payloadlen);
	for (const mosquitto_property *one = message->properties; one; one = mosquitto_property_next(one)) {
		char *name = NULL, *value = NULL;
		if (mosquitto_property_identifier(one) != MQTT_PROP_USER_PROPERTY)
			continue;
		if (!mosquitto_property_read_string_pair(one, MQTT_PROP_USER_PROPERTY, &name, &value, false)) {
			signed_bytes->failed = true;
			return;
		}
		append_text(signed_bytes, name);
		append_text(signed_bytes, value);
		free(name);
		free(value);
	}
}

/* Adds the user property with the identity of the sender to a request. */
static int identify(const struct plugin *plugin, struct mosquitto_evt_message *message, const char *response_topic)
{
	const char *client = mosquitto_client_id(message->client), *user = mosquitto_client_username(message->client);
	struct bytes signed_bytes = {0}, value = {0};
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned int mac_length = 0;
	char head[2 * EVP_MAX_MD_SIZE + 32];
	size_t length = 0;
	int error = MOSQ_ERR_NOMEM;

	if (!user)
		user = "";
	append_text(&signed_bytes, client);
	append_text(&signed_bytes, user);
	append_text(&signed_bytes, message->topic);
	append_text(&signed_bytes, response_topic);
	append_content(&signed_bytes, message);
	if (signed_bytes.failed || !HMAC(EVP_sha256(), plugin->key, (int)plugin->key_length, signed_bytes.data, signed_bytes.length,
					 mac, &mac_length))
		goto end;
	for (unsigned int index = 0; index < mac_length; index++)
		length += (size_t)snprintf(head + length, sizeof head - length, "%02x", mac[index]);
	length += (size_t)snprintf(head + length, sizeof head - length, " %zu ", strlen(client));
	append(&value, head, length);
	append(&value, client, strlen(client));
	if (*user) {
		append(&value, " ", 1);
		append(&value, user, strlen(user));
	}
	append(&value, "", 1);
	if (value.failed)
		goto end;
	if (value.length - 1 > MOST_STRING) {
		mosquitto_log_printf(MOSQ_LOG_WARNING, "statestore_identity: the name of a client or its user is too long");
		error = MOSQ_ERR_ACL_DENIED;
		goto end;
	}
	error = mosquitto_property_add_string_pair(
		&message->properties, MQTT_PROP_USER_PROPERTY, plugin->property, (const char *)value.data);
end:
	free(signed_bytes.data);
	free(value.data);
	return error;
}

static int on_message(int event, void *event_data, void *userdata)
{
	const struct plugin *plugin = userdata;
	struct mosquitto_evt_message *message = event_data;
	char *response_topic = NULL;
	bool forged;
	int error;

	(void)event;
	/* Removal of the property requires a new list, and Mosquitto frees the former one only since 2.0.15. */
	error = is_forged(plugin, message->properties, &forged);
	if (error)
		return error;
	if (forged)
		return MOSQ_ERR_ACL_DENIED;
	if (strcmp(message->topic, REQUEST) != 0)
		return MOSQ_ERR_SUCCESS;
	mosquitto_property_read_string(message->properties, MQTT_PROP_RESPONSE_TOPIC, &response_topic, false);
	/* A client gets responses only on its own response topic. MQTT 5 publishers receive the reason code. */
	if (response_topic && is_own(response_topic, mosquitto_client_id(message->client)))
		error = identify(plugin, message, response_topic);
	else
		error = MOSQ_ERR_ACL_DENIED;
	free(response_topic);
	return error;
}

/* Reads the key. After a failure the former key stays in use. */
static int read_key(struct plugin *plugin)
{
	/* One byte more than the maximum, to detect longer keys, and the line end. */
	unsigned char key[MOST_KEY + 3];
	size_t length;
	FILE *file = fopen(plugin->key_file, "rb");
	if (!file) {
		mosquitto_log_printf(MOSQ_LOG_ERR, "statestore_identity: cannot read %s: %s", plugin->key_file, strerror(errno));
		return MOSQ_ERR_INVAL;
	}
	length = fread(key, 1, sizeof key, file);
	fclose(file);
	if (length > 0 && key[length - 1] == '\n')
		length--;
	if (length > 0 && key[length - 1] == '\r')
		length--;
	if (length < LEAST_KEY || length > MOST_KEY) {
		mosquitto_log_printf(MOSQ_LOG_ERR, "statestore_identity: %s has to hold a key of %d to %d bytes: openssl rand -hex 32",
				     plugin->key_file, LEAST_KEY, MOST_KEY);
		return MOSQ_ERR_INVAL;
	}
	memcpy(plugin->key, key, length);
	plugin->key_length = length;
	OPENSSL_cleanse(key, sizeof key);
	return MOSQ_ERR_SUCCESS;
}

static int on_reload(int event, void *event_data, void *userdata)
{
	(void)event;
	(void)event_data;
	/* An unusable file does not stop the broker: the former key stays in use. */
	(void)read_key(userdata);
	return MOSQ_ERR_SUCCESS;
}

int mosquitto_plugin_version(int supported_version_count, const int *supported_versions)
{
	for (int index = 0; index < supported_version_count; index++)
		if (supported_versions[index] == MOSQ_PLUGIN_VERSION)
			return MOSQ_PLUGIN_VERSION;
	return -1;
}

int mosquitto_plugin_cleanup(void *user_data, struct mosquitto_opt *options, int option_count)
{
	struct plugin *plugin = user_data;
	(void)options;
	(void)option_count;
	if (plugin) {
		mosquitto_callback_unregister(plugin->id, MOSQ_EVT_MESSAGE, on_message, NULL);
		mosquitto_callback_unregister(plugin->id, MOSQ_EVT_RELOAD, on_reload, NULL);
		OPENSSL_cleanse(plugin->key, sizeof plugin->key);
		free(plugin->property);
		free(plugin->key_file);
		free(plugin);
	}
	return MOSQ_ERR_SUCCESS;
}

/* Stores an option. Returns false if it is unknown or empty. */
static bool take_option(struct plugin *plugin, const struct mosquitto_opt *option)
{
	char **place = strcmp(option->key, "property") == 0 ? &plugin->property
		       : strcmp(option->key, "key_file") == 0 ? &plugin->key_file
							       : NULL;
	char *value = place && option->value && *option->value ? strdup(option->value) : NULL;
	if (!value) {
		mosquitto_log_printf(MOSQ_LOG_ERR, "statestore_identity: plugin_opt_%s is not an option of this plugin, or is empty",
				     option->key);
		return false;
	}
	free(*place);
	*place = value;
	return true;
}

int mosquitto_plugin_init(mosquitto_plugin_id_t *identifier, void **user_data, struct mosquitto_opt *options, int option_count)
{
	int error = MOSQ_ERR_INVAL;
	struct plugin *plugin = calloc(1, sizeof *plugin);
	if (!plugin)
		return MOSQ_ERR_NOMEM;
	plugin->id = identifier;
	for (int index = 0; index < option_count; index++)
		if (!take_option(plugin, &options[index]))
			goto failed;
	if (!plugin->property && !(plugin->property = strdup(DEFAULT_PROPERTY)))
		goto failed;
	if (!plugin->key_file) {
		mosquitto_log_printf(MOSQ_LOG_ERR, "statestore_identity: plugin_opt_key_file is missing");
		goto failed;
	}
	error = read_key(plugin);
	if (!error)
		error = mosquitto_callback_register(identifier, MOSQ_EVT_MESSAGE, on_message, NULL, plugin);
	if (!error)
		error = mosquitto_callback_register(identifier, MOSQ_EVT_RELOAD, on_reload, NULL, plugin);
	if (error)
		goto failed;
	*user_data = plugin;
	return MOSQ_ERR_SUCCESS;
failed:
	mosquitto_plugin_cleanup(plugin, NULL, 0);
	return error;
}
