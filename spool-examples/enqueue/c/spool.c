#define _POSIX_C_SOURCE 200809L
#include "spool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct packet {
    unsigned char bytes[4 + SPOOL_LIMIT];
    size_t length;
};

static int fail(char *answer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer, SPOOL_ANSWER, format, arguments);
    va_end(arguments);
    return -1;
}

static void put(struct packet *packet, const char *bytes, size_t length) {
    unsigned char *end = packet->bytes + packet->length;
    end[0] = length & 0xFF;
    end[1] = length >> 8;
    memcpy(end + 2, bytes, length);
    packet->length += 2 + length;
}

static int put_pair(struct packet *packet, const char *key, size_t key_length, const char *value, size_t value_length,
                    char *answer) {
    int shown = key_length < 40 ? (int)key_length : 40;
    if (key_length == 0) return fail(answer, "a key is empty");
    if (key_length > SPOOL_LIMIT)
        return fail(answer, "the key \"%.*s\" has %zu bytes, the limit is %d", shown, key, key_length, SPOOL_LIMIT);
    if (value_length > SPOOL_LIMIT)
        return fail(answer, "the value of \"%.*s\" has %zu bytes, the limit is %d: use the body", shown, key,
                    value_length, SPOOL_LIMIT);
    if (packet->length + 4 + key_length + value_length > sizeof packet->bytes)
        return fail(answer, "the keys and values up to \"%.*s\" take %zu bytes, the limit is %d: use the body", shown, key,
                    packet->length + key_length + value_length, SPOOL_LIMIT);
    put(packet, key, key_length);
    put(packet, value, value_length);
    return 0;
}

/* The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian. */
static int encode(struct packet *packet, const struct spool_task *task, char *answer) {
    packet->length = 4;
    for (size_t i = 0; i < task->pairs; i++) {
        const struct spool_pair *pair = &task->dictionary[i];
        for (const char **key = (const char *[]){"at", "priority", "body", NULL}; *key; key++)
            if (pair->key_length == strlen(*key) && memcmp(pair->key, *key, pair->key_length) == 0)
                return fail(answer, "the key \"%s\" is not for the dictionary: it is a field of the task", *key);
        if (put_pair(packet, pair->key, pair->key_length, pair->value, pair->value_length, answer)) return -1;
    }
    if (!(task->at >= 0 && task->at < 1e15)) return fail(answer, "at must be epoch seconds, got %g", task->at);
    if (task->at > 0) {
        char text[32];
        size_t length = (size_t)snprintf(text, sizeof text, "%.6f", task->at);
        while (text[length - 1] == '0') length--;
        if (text[length - 1] == '.') length--;
        if (put_pair(packet, "at", 2, text, length, answer)) return -1;
    }
    if (task->priority) {
        size_t length = strlen(task->priority);
        if (length == 0 || strspn(task->priority, "0123456789") != length)
            return fail(answer, "priority must be digits, got \"%.40s\"", task->priority);
        if (put_pair(packet, "priority", 8, task->priority, length, answer)) return -1;
    }
    packet->bytes[0] = 17;
    packet->bytes[1] = (packet->length - 4) & 0xFF;
    packet->bytes[2] = (packet->length - 4) >> 8;
    packet->bytes[3] = 0;
    return 0;
}

static int write_all(int fd, const void *bytes, size_t length) {
    for (const char *next = bytes; length > 0;) {
        ssize_t written = write(fd, next, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        next += written;
        length -= (size_t)written;
    }
    return 0;
}

static int write_task(const char *path, const struct packet *packet, const struct spool_task *task) {
    struct timespec at[2] = {{.tv_sec = (time_t)task->at}, {.tv_sec = (time_t)task->at}};
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    int failed = write_all(fd, packet->bytes, packet->length) || write_all(fd, task->body, task->body_length) ||
                 (task->at > 0 && futimens(fd, at)) || /* after the last write, which sets the mtime to now */
                 (!task->no_sync && fsync(fd));
    return close(fd) || failed ? -1 : 0;
}

static int sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int failed = fsync(fd);
    return close(fd) || failed ? -1 : 0;
}

int spool(const struct spool_task *task, char answer[SPOOL_ANSWER]) {
    static struct packet packet;
    static unsigned long counter;
    char host[256] = "", directory[2048], name[512], hidden[4096], path[4096];
    struct timespec now;
    if (encode(&packet, task, answer)) return -1;
    int length = snprintf(directory, sizeof directory, "%s%s%s", task->spooler, task->priority ? "/" : "",
                          task->priority ? task->priority : "");
    if (length >= (int)sizeof directory) return fail(answer, "%.40s…: %s", directory, strerror(ENAMETOOLONG));
    if (task->priority && mkdir(directory, 0777) && errno != EEXIST) /* less the umask */
        return fail(answer, "%s: %s", directory, strerror(errno));
    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned random = (unsigned)now.tv_nsec * 2654435761u >> 1; /* srandom() belongs to the program */
    snprintf(name, sizeof name, "uwsgi_spoolfile_on_%s_%ld_%lu_%u_%lld_%ld", host, (long)getpid(), ++counter, random,
             (long long)now.tv_sec, now.tv_nsec / 1000);
    /* No daemon runs a file whose name begins with a dot; the rename publishes only a complete file. */
    snprintf(hidden, sizeof hidden, "%s/.%s", directory, name);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (write_task(hidden, &packet, task) || rename(hidden, path)) {
        fail(answer, "%s: %s", directory, strerror(errno));
        unlink(hidden);
        return -1;
    }
    if (!task->no_sync && (sync_directory(directory) || sync_directory(task->spooler))) /* the rename, and a new directory */
        return fail(answer, "%s: %s", directory, strerror(errno));
    snprintf(answer, SPOOL_ANSWER, "%s", path);
    return 0;
}
