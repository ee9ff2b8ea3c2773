/*
 * Stands between a program and the machine's clock: adds so many seconds as a file says, which may change at any moment.
 * The clock that nobody can set, CLOCK_MONOTONIC, is left as it is. For test/support/clock.ts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("TEST_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *shared = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
  if (shared != MAP_FAILED) ahead = shared;
  close(file);
}

static int64_t seconds(void) { return ahead ? *ahead : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += seconds();
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
