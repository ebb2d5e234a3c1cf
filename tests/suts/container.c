/* A container of containerd's CRI plugin in C. It implements the machine container-status and speaks the
 * protocol of docs/reference/exec-protocol.md. The state is derived from the recorded fields.
 *
 * Usage: container [forgets-failed-starts | forgets-what-it-skips | removes-what-it-cannot-kill |
 *                   restarts-exited | refuses-second-stop | stop-forgets]
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LENGTH 4096
#define WANTED 4

static struct {
    bool there, started, finished, unknown;
} record, skipped;

/* The requested outcome of each stage of the next event. */
static char wanted[WANTED][64];
static int wants;

static const char *wrong = "";

static bool is(const char *one, const char *other) { return strcmp(one, other) == 0; }

static bool will(const char *outcome)
{
    for (int each = 0; each < wants; each++)
        if (is(wanted[each], outcome))
            return true;
    return false;
}

static const char *shows(void)
{
    if (!record.there)
        return "absent";
    if (record.unknown)
        return "CONTAINER_UNKNOWN";
    return record.finished ? "CONTAINER_EXITED" : record.started ? "CONTAINER_RUNNING" : "CONTAINER_CREATED";
}

static bool running(void) { return record.there && record.started && !record.finished && !record.unknown; }

static const char *create(void)
{
    if (record.there || skipped.there || will("failed"))
        return "UNKNOWN";
    record.there = true;
    return "ok";
}

static const char *start(void)
{
    if (!record.there)
        return "NOT_FOUND";
    if (is(wrong, "restarts-exited") && record.finished && !record.unknown)
        record.finished = record.started = false;
    if (record.unknown || record.started || record.finished || will("no-info") || will("not-recorded"))
        return "FAILED_PRECONDITION";
    if (will("failed")) {
        record.finished = !is(wrong, "forgets-failed-starts");
        return "UNKNOWN";
    }
    record.started = true;
    return "ok";
}

/* The running process has ended, and its end has been noticed. */
static void finish(void)
{
    record.finished = true;
    record.unknown = false;
}

static const char *stop(void)
{
    if (!running() && !(record.there && record.unknown))
        return is(wrong, "refuses-second-stop") && record.there && record.finished ? "FAILED_PRECONDITION" : "ok";
    if (will("gone-already"))
        return "ok";
    if (will("cut-short") || will("failed"))
        return "UNKNOWN";
    if (!is(wrong, "stop-forgets"))
        finish();
    return will("stopped-late") ? "DEADLINE_EXCEEDED" : "ok";
}

static const char *removal(void)
{
    if (!record.there) {
        memset(&skipped, 0, sizeof skipped);
        return "ok";
    }
    if (will("no-record")) {
        memset(&record, 0, sizeof record);
        return "ok";
    }
    if (will("no-info"))
        return "UNKNOWN";
    if (running() || record.unknown) {
        if (will("not-killed") && !is(wrong, "removes-what-it-cannot-kill"))
            return "UNKNOWN";
        finish();
        if (will("killed-only"))
            return "UNKNOWN";
    }
    if (will("failed"))
        return "UNKNOWN";
    memset(&record, 0, sizeof record);
    return "ok";
}

static const char *when_running(void)
{
    return !record.there ? "NOT_FOUND" : !running() || will("failed") ? "UNKNOWN" : "ok";
}

static const char *update(void) { return !record.there ? "NOT_FOUND" : will("failed") ? "UNKNOWN" : "ok"; }

static const char *status(void) { return update(); }

static const char *stats(void)
{
    if (record.there && record.unknown)
        return will("failed") ? "UNKNOWN" : "ok";
    return when_running();
}

static const char *checkpoint(void) { return running() && !will("failed") ? "ok" : "UNIMPLEMENTED"; }

static const char *ended(void)
{
    if (running() || (record.there && record.unknown))
        finish();
    return "";
}

static const char *oom(void) { return ""; }

/* Reset the process, and recover all readable records, including records that an earlier restart skipped. */
static const char *restart(void)
{
    if (skipped.there && !is(wrong, "forgets-what-it-skips"))
        record = skipped;
    memset(&skipped, 0, sizeof skipped);
    if (!record.there)
        return "";
    if (will("skipped")) {
        skipped = record;
        memset(&record, 0, sizeof record);
    } else if (will("unknown")) {
        record.unknown = true;
    } else {
        if (will("exited"))
            record.finished = true;
        if (wants > 0)
            record.unknown = false;
    }
    return "";
}

static const struct {
    const char *event;
    const char *(*happens)(void);
} EVENTS[] = {
    {"create", create},
    {"start", start},
    {"stop", stop},
    {"remove", removal},
    {"status", status},
    {"exec", when_running},
    {"exec-sync", when_running},
    {"attach", when_running},
    {"reopen-log", when_running},
    {"update-resources", update},
    {"stats", stats},
    {"checkpoint", checkpoint},
    {"exit", ended},
    {"oom", oom},
    {"restart", restart},
};

/* Return the string after "key":" in the line, or NULL without such a key. Names contain nothing that JSON escapes.
*/
static const char *word(const char *line, const char *key, char *into, size_t size)
{
    char before[32];
    snprintf(before, sizeof before, "\"%s\":\"", key);
    const char *found = strstr(line, before);
    if (!found)
        return NULL;
    found += strlen(before);
    snprintf(into, size, "%.*s", (int)strcspn(found, "\""), found);
    return into;
}

int main(int count, char **arguments)
{
    char line[LENGTH], name[64];
    if (count > 1)
        wrong = arguments[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("{\"fsm\":1,\"can\":[\"arrange\"]}");
    while (fgets(line, sizeof line, stdin)) {
        long id = 0;
        const char *reply = "", *unsupported = "";
        sscanf(line, "{\"id\":%ld", &id);
        if (strstr(line, "\"reset\":true")) {
            memset(&record, 0, sizeof record);
            memset(&skipped, 0, sizeof skipped);
            wants = 0;
        } else if (word(line, "outcome", name, sizeof name)) {
            if (wants < WANTED)
                strcpy(wanted[wants++], name);
        } else if (word(line, "do", name, sizeof name)) {
            unsupported = ",\"unsupported\":true";
            for (size_t each = 0; each < sizeof EVENTS / sizeof *EVENTS; each++)
                if (is(EVENTS[each].event, name)) {
                    reply = EVENTS[each].happens();
                    unsupported = "";
                }
            wants = 0;
        }
        printf("{\"id\":%ld,\"reply\":\"%s\",\"shows\":\"%s\"%s}\n", id, reply, shows(), unsupported);
    }
    return 0;
}
