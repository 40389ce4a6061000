/*
 * Rhumb for C: join a network of names, be reached by name, send and receive by name. What goes
 * between two names is encrypted from one end to the other, and both names are proven.
 *
 * Names are text of 52 characters. Every call that can fail returns RHUMB_OK or an error code, and
 * writes into the rhumb_error that it is given, unless that is NULL. A call that waits takes a time
 * in milliseconds, after which it returns RHUMB_TIMED_OUT and nothing is lost; RHUMB_FOREVER waits
 * for as long as it takes, and 0 takes what is there.
 *
 * What a call gives is the caller's, until it is given back by the call named at it, once. All but
 * those calls may be made from several threads at once. What was made before a fork() is of no use
 * in the child: calls say RHUMB_CLOSED there, and those that give back do nothing.
 *
 * Link librhumb_c.so by -lrhumb_c; or librhumb_c.a, with -lpthread -ldl -lm.
 */
#ifndef RHUMB_H
#define RHUMB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. What rhumb_version() says has the same first two numbers. */
#define RHUMB_VERSION "0.1.0"

/* A name, with the zero at its end. */
#define RHUMB_NAME_SIZE 53
/* What an error says, with the zero at its end: one line. */
#define RHUMB_MESSAGE_SIZE 512
/* For as long as it takes. */
#define RHUMB_FOREVER UINT32_MAX

/* Error codes, by what can be done. They stay as they are. */
enum {
    RHUMB_OK = 0,
    /* Something that was given is not what it should be: correct the program. */
    RHUMB_INVALID = 1,
    /* A file of a key, an AdCert or a membership is missing, damaged, or another one's. */
    RHUMB_KEY_FILE = 2,
    /* Nobody answers, or there is no way: try again later, or look at the network. */
    RHUMB_UNREACHABLE = 3,
    /* Somebody answers, and does not want this: ask whoever runs it. */
    RHUMB_REFUSED = 4,
    /* It took longer than was allowed. */
    RHUMB_TIMED_OUT = 5,
    /* It is over: join, connect or open anew. */
    RHUMB_CLOSED = 6,
    /* It is longer than one datagram carries, or than the place for it. */
    RHUMB_TOO_BIG = 7,
    /* There is no room, or somebody has it: try again, slower, or take another. */
    RHUMB_BUSY = 8,
    /* The system refuses, or this library failed. */
    RHUMB_SYSTEM = 9
};

/* Why a call failed. */
typedef struct rhumb_error {
    int code;
    /* What happened, and what to do: one line of UTF-8. */
    char message[RHUMB_MESSAGE_SIZE];
} rhumb_error;

/* A name that is joined to a router. */
typedef struct rhumb_node rhumb_node;
/* A port of a node, for datagrams. */
typedef struct rhumb_port rhumb_port;
/* A port of a node, to which others open streams. */
typedef struct rhumb_listener rhumb_listener;
/* Bytes in order between two names, both ways. */
typedef struct rhumb_stream rhumb_stream;
/* A name that a node answers for by its owner's AdCert. */
typedef struct rhumb_service rhumb_service;

/* How to join. Set all to zero, and then what should be otherwise. */
typedef struct rhumb_options {
    /* Where a router is, and who it must prove to be: "NAME@ADDRESS". By its address alone whoever
     * answers there is believed. NULL finds one on the local network. */
    const char *router;
    /* The path of a key file, as `rhumb keygen` and rhumb_key_generate() make them; the membership
     * that lies beside it is shown. NULL is a name of the moment. */
    const char *key;
    /* Opens a sealed key file; or NULL. */
    const char *passphrase;
    /* How long joining may take; 0 is 5000. */
    uint32_t timeout_ms;
    /* Not 0: joins even if no RIB stores the name, by which others find it. */
    int unpublished;
    /* Not 0: never over TLS on TCP, not even where UDP is blocked. */
    int no_tls;
} rhumb_options;

/* Who sent a datagram, and whence. */
typedef struct rhumb_message {
    /* The name of who sent it: proven. */
    char from[RHUMB_NAME_SIZE];
    /* The name that it was for: the node's own, or one that it serves. */
    char to[RHUMB_NAME_SIZE];
    /* The port that it was sent from; 0 if its sender takes no answer. */
    uint16_t from_port;
    /* Its length, even if there was no place for it. */
    size_t length;
} rhumb_message;

/* The version of the library. */
const char *rhumb_version(void);

/* Makes a key and writes it to a new file, which its owner alone can read; sealed if there is a
 * passphrase. The name goes to `name`, unless that is NULL. */
int rhumb_key_generate(const char *path, const char *passphrase, char name[RHUMB_NAME_SIZE],
                       rhumb_error *error);

/* Joins. Give the node back by rhumb_leave(). */
int rhumb_join(const rhumb_options *options, rhumb_node **node, rhumb_error *error);
/* Withdraws the name, ends everything of the node, and gives it back; two seconds at most. What
 * belonged to it has to be given back still. NULL is allowed. */
void rhumb_leave(rhumb_node *node);
/* The node's name. */
int rhumb_node_name(const rhumb_node *node, char name[RHUMB_NAME_SIZE], rhumb_error *error);
/* The round trip to a name, in microseconds. */
int rhumb_ping(const rhumb_node *node, const char *name, uint32_t timeout_ms,
               uint64_t *round_trip_us, rhumb_error *error);

/* Answers for the owner of the AdCert in a file. Give it back by rhumb_service_close(). */
int rhumb_serve(const rhumb_node *node, const char *ad_cert_path, rhumb_service **service,
                rhumb_error *error);
/* Answers no longer. NULL is allowed. */
void rhumb_service_close(rhumb_service *service);

/*
 * `allow` says who may use a port: "everybody", or names, and "domain:NAME" for the members of a
 * trust domain, with spaces between; "" is nobody.
 */

/* Begins to receive datagrams on a port; 0 takes any that is free. Give it back by
 * rhumb_port_close(). */
int rhumb_bind(const rhumb_node *node, uint16_t port, const char *allow, rhumb_port **bound,
               rhumb_error *error);
/* The port's number; 0 if there is none. */
uint16_t rhumb_port_number(const rhumb_port *port);
/* Sends a datagram to a port of a name, from this port. It may get lost, and nobody says so. */
int rhumb_port_send(const rhumb_port *port, const char *to, uint16_t to_port, const void *data,
                    size_t length, uint32_t timeout_ms, rhumb_error *error);
/* The next datagram: up to `size` bytes of it to `data`, and who sent it to `message`. One that is
 * longer is RHUMB_TOO_BIG, stays the next one, and `message` tells how long it is. */
int rhumb_port_receive(const rhumb_port *port, void *data, size_t size, rhumb_message *message,
                       uint32_t timeout_ms, rhumb_error *error);
/* Answers a datagram, in the name that it was for. */
int rhumb_port_reply(const rhumb_port *port, const rhumb_message *message, const void *data,
                     size_t length, uint32_t timeout_ms, rhumb_error *error);
/* Receives no more. NULL is allowed. */
void rhumb_port_close(rhumb_port *port);

/* Takes streams that are opened to a port. Give it back by rhumb_listener_close(). */
int rhumb_listen(const rhumb_node *node, uint16_t port, const char *allow,
                 rhumb_listener **listener, rhumb_error *error);
/* The next stream. Give it back by rhumb_stream_close(). */
int rhumb_accept(const rhumb_listener *listener, uint32_t timeout_ms, rhumb_stream **stream,
                 rhumb_error *error);
/* Takes no more. NULL is allowed. */
void rhumb_listener_close(rhumb_listener *listener);

/* Opens a stream to a port of a name. Whether the port is served shows when something is read.
 * Give it back by rhumb_stream_close(). */
int rhumb_connect(const rhumb_node *node, const char *name, uint16_t port, uint32_t timeout_ms,
                  rhumb_stream **stream, rhumb_error *error);
/* The name at the other end: proven. */
int rhumb_stream_peer(const rhumb_stream *stream, char name[RHUMB_NAME_SIZE], rhumb_error *error);
/* Up to `size` bytes, as soon as there are some. At the end of what the other end writes, `length`
 * is 0. One thread may read while another one writes. */
int rhumb_read(const rhumb_stream *stream, void *data, size_t size, size_t *length,
               uint32_t timeout_ms, rhumb_error *error);
/* Writes, as the other end takes it. `written` says how much that was, all unless the call failed;
 * it may be NULL. */
int rhumb_write(const rhumb_stream *stream, const void *data, size_t length, size_t *written,
                uint32_t timeout_ms, rhumb_error *error);
/* Says that nothing more is written, and waits until the other end has it all; RHUMB_CLOSED if it
 * has let the stream go before. */
int rhumb_finish(const rhumb_stream *stream, uint32_t timeout_ms, rhumb_error *error);
/* Ends it; what was written and not finished is given up. NULL is allowed. */
void rhumb_stream_close(rhumb_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
