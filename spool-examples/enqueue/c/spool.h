/* Stores tasks for spoold or uWSGI. Copy spool.h and spool.c: they need a C99 compiler and POSIX, and nothing else.
 *
 *     struct spool_pair dictionary[] = {{"to", 2, "joe", 3}};
 *     struct spool_task task = {.dictionary = dictionary, .pairs = 1, .spooler = "/var/spool/app",
 *                               .at = time(NULL) + 60, .priority = "5", .body = "hello", .body_length = 5};
 *     char answer[SPOOL_ANSWER];
 *     if (spool(&task, answer) != 0) errx(1, "%s", answer);
 */
#ifndef SPOOL_H
#define SPOOL_H
#include <stddef.h>

#define SPOOL_LIMIT 0xFFFF /* bytes: the size of the block and each length in it are 16-bit numbers */
#define SPOOL_ANSWER 8192  /* bytes: holds a path or a message */

/* One entry of the dictionary: arbitrary bytes. */
struct spool_pair {
    const char *key;
    size_t key_length;
    const char *value;
    size_t value_length;
};

/* Fields left at 0 are unused: the task is due at once, without priority and body, and synced to disk. */
struct spool_task {
    const struct spool_pair *dictionary; /* written in order */
    size_t pairs;
    const char *spooler;  /* the spool directory, which has to exist */
    double at;            /* do not run before this time: epoch seconds, may have a fraction */
    const char *priority; /* the priority directory, digits only; lower runs first if the daemon has spooler-ordered */
    const void *body;
    size_t body_length;
    int no_sync; /* do not wait until the task is on disk, so it may be lost in a power failure */
};

/* Stores one task. Returns 0 with the path of its file in answer, or -1 with a message in it: for invalid arguments,
 * before anything is written, or if the task could not be stored. Not thread-safe. */
int spool(const struct spool_task *task, char answer[SPOOL_ANSWER]);

#endif
