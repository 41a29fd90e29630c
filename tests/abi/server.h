/* A state store of its own for a test. */
#ifndef SERVER_H
#define SERVER_H

#include "statestore.h"

/* A process of statestored that keeps everything in memory, on a free port. It ends with the test. */
typedef struct server server;

/* Starts the program that the variable STATESTORED_BIN names. */
server *server_start(void);
/* Its address, as URL. */
const char *server_url(const server *server);
void server_stop(server *server);

/* A client of it. */
sst_client *server_connect(const server *server);

/* Closes a client and frees it. */
void disconnect(sst_client *client);

#endif
