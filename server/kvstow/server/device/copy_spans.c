/* Copies byte spans between mapped files, many in one call, and outlives the truncation of those files.
 *
 * Loaded by kernel.py through ctypes, which gives up the GIL for the length of a call. No Python ABI is used.
 *
 * A read or write beyond the end of a mapped file raises SIGBUS, whose default is the end of the process. An engine
 * may truncate its file at any moment, so a fault inside copy_spans becomes a return value instead. A fault anywhere
 * else is handed to whoever handled SIGBUS before.
 */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { LINE = 64, AHEAD = 4096 };

/* Where this thread goes on after a bus error; NULL while it is not copying. The handler may run in a thread that
 * never copied: initial-exec storage is there from the start, any other may be allocated on first use. */
static __thread sigjmp_buf *volatile recovery __attribute__((tls_model("initial-exec")));
static struct sigaction previous;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    /* A code above zero says that the kernel found a fault; kill(2) sends others, and they are not ours. */
    if (recovery != NULL && info->si_code > 0)
        siglongjmp(*recovery, 1);
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else {
        sigaction(SIGBUS, &previous, NULL);
        raise(SIGBUS); /* delivered when this handler returns */
    }
}

/* Installs the handler; to be called once per process, before the first copy. Returns 0, or -1 with errno set. */
int catch_bus_errors(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &previous);
}

#ifdef __SSE2__
static void stream_line(char *target, const char *source)
{
    const __m128i *from = (const __m128i *)source;
    __m128i *to = (__m128i *)target;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

/* Fetches a line ahead: to be used once, or into the second-level cache. Neither faults. */
static inline void fetch_line(const char *source, int keep)
{
    if (keep)
        _mm_prefetch(source, _MM_HINT_T1);
    else
        _mm_prefetch(source, _MM_HINT_NTA);
}

/* Stores past the caches: the lines written are not read first, and what others keep in the caches stays there.
 * The processor's own prefetching begins anew with every span, which is why `next`, the source of the span after this
 * one, is fetched ahead from here. */
static inline void stream_lines(char *target, const char *source, size_t length, const char *next, int keep)
{
    size_t done = -(uintptr_t)target % LINE;
    memcpy(target, source, done);
    for (; done + AHEAD <= length; done += LINE) {
        fetch_line(source + done + AHEAD, keep);
        stream_line(target + done, source + done);
    }
    for (; done + LINE <= length; done += LINE) {
        fetch_line(next + (done + AHEAD - length), keep);
        stream_line(target + done, source + done);
    }
    memcpy(target + done, source + done, length - done);
}

/* The hint is part of the instruction, so each has its own loops. */
static void stream(char *target, const char *source, size_t length, const char *next, int keep)
{
    if (keep)
        stream_lines(target, source, length, next, 1);
    else
        stream_lines(target, source, length, next, 0);
}

static void fence(void) { _mm_sfence(); }
#else
static void stream(char *target, const char *source, size_t length, const char *next, int keep)
{
    (void)next, (void)keep;
    memcpy(target, source, length);
}

static void fence(void) {}
#endif

/* Copies the spans first, first + 1, ... count - 1; those of stream_from bytes and more (at least AHEAD) bypass the
 * caches, and `keep` says how these are fetched ahead, see fetch_line. Returns count, or the index of the span whose
 * memory faulted: the ones before it were copied, those behind it were not touched. The bytes are visible to every
 * thread and process when it returns. */
int64_t copy_spans(int64_t first, int64_t count, const uint64_t *targets, const uint64_t *sources,
                   const int64_t *lengths, int64_t stream_from, int64_t keep)
{
    sigjmp_buf here;
    volatile int64_t index = first;
    if (sigsetjmp(here, 1) == 0) {
        recovery = &here;
        for (; index < count; index++) {
            char *target = (char *)(uintptr_t)targets[index];
            const char *source = (const char *)(uintptr_t)sources[index];
            size_t length = (size_t)lengths[index];
            int64_t next = index + 1 < count ? index + 1 : index;
            if (lengths[index] >= stream_from)
                stream(target, source, length, (const char *)(uintptr_t)sources[next], keep != 0);
            else
                memcpy(target, source, length);
        }
    }
    recovery = NULL;
    fence();
    return index;
}
