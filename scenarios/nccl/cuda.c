/* A stand-in for the few parts of CUDA and NCCL that a thread can hang in.
 *
 * The functions carry CUDA's names, so that a native stack reads as it would beside a GPU. They wait as CUDA does where
 * there are as many waiting threads as cores: spinning, with the whole core, but letting others have it. The watchdog is
 * a native thread, as NCCL's is: Python knows nothing of it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile int pending;        /* collectives that were enqueued and have not finished */
volatile long long deadline; /* of the oldest of them, in nanoseconds of the monotonic clock; 0: there is none */
char last_words[4096];       /* what is printed when that has passed */

static int spin_while_more_than(int left) {
    while (pending > left) {
        sched_yield();
    }
    return 0;
}

int cudaStreamSynchronize(void *stream) { (void)stream; return spin_while_more_than(0); }
int cudaDeviceSynchronize(void) { return spin_while_more_than(0); }
int cudaLaunchKernel(int queue) { return spin_while_more_than(queue); }

static void *watch(void *nothing) {
    struct timespec now, pause = {0, 20 * 1000 * 1000};
    for (;;) {
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        long long at = deadline;
        if (at && now.tv_sec * 1000000000LL + now.tv_nsec > at) {
            if (write(STDERR_FILENO, last_words, strlen(last_words)) < 0) {
            }
            abort(); /* what an exception does that nothing catches in a native thread */
        }
    }
    return nothing;
}

int start_watchdog(void) {
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, watch, NULL);
    if (!failed) {
        pthread_setname_np(thread, "pt_nccl_watchdg");
        pthread_detach(thread);
    }
    return failed;
}
