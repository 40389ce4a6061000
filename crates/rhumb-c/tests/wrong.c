/*
 * What a program does wrong is told, and harms nothing: null pointers, bad UTF-8, what makes no
 * sense, what takes too long, and a fork. `wrong ROUTER FOLDER` prints what it was told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rhumb.h"

static rhumb_error error;
static int failures;

static void expect(int code, int expected, const char *what)
{
    printf("%s: %d %s\n", what, code, code == RHUMB_OK ? "" : error.message);
    if (code != expected || (code != RHUMB_OK && (error.code != code || !error.message[0]))) {
        printf("expected was %d\n", expected);
        failures++;
    }
}

static void without_a_node(const char *folder)
{
    rhumb_options options;
    rhumb_node *node = (rhumb_node *)&options;
    char name[RHUMB_NAME_SIZE], path[1000];

    memset(&options, 0, sizeof options);
    expect(rhumb_join(NULL, &node, &error), RHUMB_INVALID, "no options");
    if (node != NULL)
        failures++;
    expect(rhumb_join(&options, NULL, &error), RHUMB_INVALID, "no place for a node");
    options.router = "\xff\xfe";
    expect(rhumb_join(&options, &node, &error), RHUMB_INVALID, "a router that is no UTF-8");
    options.router = "somewhere";
    expect(rhumb_join(&options, &node, &error), RHUMB_INVALID, "a router without a port");
    options.router = "127.0.0.1:9";
    options.timeout_ms = 50;
    expect(rhumb_join(&options, &node, &error), RHUMB_UNREACHABLE, "a router that is not there");
    snprintf(path, sizeof path, "%s/none.key", folder);
    options.key = path;
    expect(rhumb_join(&options, &node, &error), RHUMB_KEY_FILE, "a key that is not there");
    expect(rhumb_join(&options, &node, NULL), RHUMB_KEY_FILE, "a key, and no place for the error");
    expect(rhumb_node_name(NULL, name, &error), RHUMB_INVALID, "no node");
    expect(rhumb_key_generate(NULL, NULL, name, &error), RHUMB_INVALID, "no path");
    expect(rhumb_key_generate(path, "secret", name, &error), RHUMB_OK, "a new key");
    expect(rhumb_key_generate(path, NULL, NULL, &error), RHUMB_KEY_FILE, "a key that is there");
    expect(rhumb_join(&options, &node, &error), RHUMB_KEY_FILE, "a sealed key without passphrase");
    options.passphrase = "guess";
    expect(rhumb_join(&options, &node, &error), RHUMB_KEY_FILE, "a wrong passphrase");
    rhumb_leave(NULL);
    rhumb_port_close(NULL);
    rhumb_listener_close(NULL);
    rhumb_stream_close(NULL);
    rhumb_service_close(NULL);
}

static void with_a_node(const rhumb_node *node)
{
    static const char other[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    char name[RHUMB_NAME_SIZE], bytes[4], large[70000];
    rhumb_message message;
    rhumb_port *port, *second;
    rhumb_listener *listener;
    rhumb_stream *stream;
    uint64_t round_trip_us;

    memset(large, 0, sizeof large);
    expect(rhumb_node_name(node, name, &error), RHUMB_OK, "a name");
    expect(rhumb_bind(node, 9, "everyone", &port, &error), RHUMB_INVALID, "a rule of no sense");
    expect(rhumb_bind(node, 9, NULL, &port, &error), RHUMB_INVALID, "no rule");
    expect(rhumb_bind(node, 9, "", &port, &error), RHUMB_OK, "a port for nobody");
    expect(rhumb_bind(node, 9, name, &second, &error), RHUMB_BUSY, "a port that is bound");
    expect(rhumb_port_receive(port, bytes, sizeof bytes, &message, 50, &error), RHUMB_TIMED_OUT,
           "nothing arrives");
    expect(rhumb_port_receive(port, NULL, 4, &message, 50, &error), RHUMB_INVALID,
           "no place for a datagram");
    expect(rhumb_port_send(port, "nobody", 9, "x", 1, 50, &error), RHUMB_INVALID, "no name");
    expect(rhumb_port_send(port, other, 9, NULL, 1, 50, &error), RHUMB_INVALID, "no data");
    expect(rhumb_port_send(port, other, 9, "x", (size_t)-1, 50, &error), RHUMB_INVALID,
           "more than there is");
    memset(&message, 0xff, sizeof message);
    expect(rhumb_port_reply(port, &message, "x", 1, 50, &error), RHUMB_INVALID, "no message");
    rhumb_port_close(port);
    expect(rhumb_listen(node, 9, other, &listener, &error), RHUMB_OK, "a port for somebody");
    expect(rhumb_accept(listener, 50, &stream, &error), RHUMB_TIMED_OUT, "nobody comes");
    rhumb_listener_close(listener);
    expect(rhumb_connect(node, other, 9, 20000, &stream, &error), RHUMB_UNREACHABLE,
           "a name that is not there");
    expect(rhumb_connect(node, other, 9, 1, &stream, &error), RHUMB_TIMED_OUT, "no time for it");
    expect(rhumb_ping(node, other, 20000, &round_trip_us, &error), RHUMB_UNREACHABLE,
           "a ping of it");
    expect(rhumb_serve(node, "/nowhere", NULL, &error), RHUMB_INVALID, "no place for a service");
}

static void after_a_fork(rhumb_node *node)
{
    char name[RHUMB_NAME_SIZE];
    int status = 1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        failures = 0;
        expect(rhumb_node_name(node, name, &error), RHUMB_CLOSED, "a node of the parent");
        rhumb_leave(node);
        fflush(stdout);
        _exit(failures);
    }
    waitpid(child, &status, 0);
    failures += status != 0;
    expect(rhumb_node_name(node, name, &error), RHUMB_OK, "and the parent goes on");
}

int main(int count, char **words)
{
    rhumb_options options;
    rhumb_node *node;

    if (count != 3)
        return 2;
    printf("version %s, header %s\n", rhumb_version(), RHUMB_VERSION);
    failures += strcmp(rhumb_version(), RHUMB_VERSION) != 0;
    without_a_node(words[2]);
    memset(&options, 0, sizeof options);
    options.router = words[1];
    expect(rhumb_join(&options, &node, &error), RHUMB_OK, "join");
    if (failures)
        return 1;
    with_a_node(node);
    after_a_fork(node);
    rhumb_leave(node);
    return failures != 0;
}
