#include "server.h"

#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

struct server {
    pid_t process;
    FILE *output;
    char url[128];
};

/* Tests end by exit(), so that the server does not outlive them. */
static pid_t running;

static void kill_running(void) {
    if (running > 0) kill(running, SIGKILL);
}

server *server_start(void) {
    const char *program = getenv("STATESTORED_BIN");
    int ends[2];
    char line[96] = "";
    server *new = calloc(1, sizeof *new);
    CHECK(program != NULL && "STATESTORED_BIN must name the server");
    CHECK(new != NULL && pipe(ends) == 0);
    new->process = fork();
    CHECK(new->process >= 0);
    if (new->process == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "--storage", "memory", "--listen", "tcp://127.0.0.1:0", "--log", "error", (char *)NULL);
        _exit(127);
    }
    running = new->process;
    atexit(kill_running);
    close(ends[1]);
    new->output = fdopen(ends[0], "r");
    CHECK(new->output != NULL && fgets(line, sizeof line, new->output) != NULL);
    CHECK(sscanf(line, "listening on tcp://%90s", new->url + strlen("mqtt://")) == 1);
    memcpy(new->url, "mqtt://", strlen("mqtt://"));
    return new;
}

const char *server_url(const server *server) {
    return server->url;
}

void server_stop(server *server) {
    kill(server->process, SIGKILL);
    CHECK(waitpid(server->process, NULL, 0) == server->process);
    running = 0;
    fclose(server->output);
    free(server);
}

sst_client *server_connect(const server *server) {
    sst_client *client = NULL;
    sst_error *error = NULL;
    OK(sst_connect(server->url, NULL, &client, &error), error);
    CHECK(client != NULL);
    return client;
}

void disconnect(sst_client *client) {
    sst_error *error = NULL;
    OK(sst_client_close(client, &error), error);
    sst_client_free(client);
}
