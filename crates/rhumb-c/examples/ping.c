/*
 * Two programs that reach each other by name, over a router:
 *
 *   ping ROUTER [KEY]        prints its name, and answers datagrams and streams at port 7
 *   ping ROUTER to NAME      pings that name, and sends it a datagram and a stream
 *
 * ROUTER is NAME@ADDRESS, as `rhumb router` prints it. Build it with one of
 *
 *   cc ping.c -I include -L target/debug -lrhumb_c -o ping
 *   cc ping.c -I include target/debug/librhumb_c.a -lpthread -ldl -lm -o ping
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rhumb.h"

#define PORT 7
#ifndef PATIENCE_MS
#define PATIENCE_MS 30000
#endif

static rhumb_error error;

/* Ends the program if a call failed. */
static void check(int code, const char *what)
{
    if (code != RHUMB_OK) {
        fprintf(stderr, "%s: %s (code %d)\n", what, error.message, code);
        exit(1);
    }
}

static void answer(const rhumb_node *node)
{
    char name[RHUMB_NAME_SIZE];
    char bytes[2000];
    rhumb_message message;
    rhumb_port *port;
    rhumb_listener *listener;
    rhumb_stream *stream;
    size_t length;
    int code;

    check(rhumb_bind(node, PORT, "everybody", &port, &error), "bind");
    check(rhumb_listen(node, PORT, "everybody", &listener, &error), "listen");
    check(rhumb_node_name(node, name, &error), "name");
    printf("%s\n", name);
    fflush(stdout);

    check(rhumb_port_receive(port, bytes, sizeof bytes, &message, RHUMB_FOREVER, &error),
          "receive");
    printf("a datagram of %zu bytes from %s\n", message.length, message.from);
    check(rhumb_port_reply(port, &message, bytes, message.length, PATIENCE_MS, &error), "reply");

    check(rhumb_accept(listener, PATIENCE_MS, &stream, &error), "accept");
    check(rhumb_stream_peer(stream, name, &error), "peer");
    printf("a stream from %s\n", name);
    for (;;) {
        code = rhumb_read(stream, bytes, sizeof bytes, &length, PATIENCE_MS, &error);
        check(code, "read");
        if (length == 0)
            break;
        check(rhumb_write(stream, bytes, length, NULL, PATIENCE_MS, &error), "write");
    }
    check(rhumb_finish(stream, PATIENCE_MS, &error), "finish");

    rhumb_stream_close(stream);
    rhumb_listener_close(listener);
    rhumb_port_close(port);
}

static void ask(const rhumb_node *node, const char *name)
{
    static const char hello[] = "hello";
    char bytes[2000], from[RHUMB_NAME_SIZE];
    rhumb_message message;
    rhumb_port *port;
    rhumb_stream *stream;
    uint64_t round_trip_us;
    size_t length, sum = 0;

    check(rhumb_ping(node, name, PATIENCE_MS, &round_trip_us, &error), "ping");
    printf("%s answers after %.3f ms\n", name, (double)round_trip_us / 1000.0);

    check(rhumb_bind(node, 0, name, &port, &error), "bind");
    check(rhumb_port_send(port, name, PORT, hello, sizeof hello, PATIENCE_MS, &error), "send");
    check(rhumb_port_receive(port, bytes, sizeof bytes, &message, PATIENCE_MS, &error), "receive");
    printf("a datagram comes back: %s\n", bytes);

    check(rhumb_connect(node, name, PORT, PATIENCE_MS, &stream, &error), "connect");
    check(rhumb_stream_peer(stream, from, &error), "peer");
    check(rhumb_write(stream, hello, sizeof hello, NULL, PATIENCE_MS, &error), "write");
    check(rhumb_finish(stream, PATIENCE_MS, &error), "finish");
    do {
        check(rhumb_read(stream, bytes + sum, sizeof bytes - sum, &length, PATIENCE_MS, &error),
              "read");
        sum += length;
    } while (length > 0);
    printf("a stream with %s gives back %zu bytes: %s\n", from, sum, bytes);

    rhumb_stream_close(stream);
    rhumb_port_close(port);
}

int main(int count, char **words)
{
    rhumb_options options;
    rhumb_node *node;
    int asks = count == 4 && strcmp(words[2], "to") == 0;

    if (count < 2 || (count > 3 && !asks)) {
        fprintf(stderr, "usage: ping ROUTER [KEY | to NAME]\n");
        return 2;
    }
    memset(&options, 0, sizeof options);
    options.router = words[1];
    options.timeout_ms = PATIENCE_MS;
    if (count == 3)
        options.key = words[2];
    check(rhumb_join(&options, &node, &error), "join");
    if (asks)
        ask(node, words[3]);
    else
        answer(node);
    rhumb_leave(node);
    return 0;
}
