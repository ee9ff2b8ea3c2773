/* What a hostile build tries to leave behind for the next one, for single-use.test.ts. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int kept[200], many;

static void keep(int fd) {
  if (fd >= 0 && many < 200) kept[many++] = fd;
}

/* Every pipe of every process, opened anew for reading and writing, with a script in it. */
static void keep_pipes(void) {
  static const char script[] = "1\necho stolen; exit 0\n";
  DIR *processes = opendir("/proc");
  for (struct dirent *process; (process = readdir(processes));) {
    if (atoi(process->d_name) == 0) continue;
    char path[300], link[300];
    snprintf(path, sizeof path, "/proc/%s/fd", process->d_name);
    DIR *descriptors = opendir(path);
    if (!descriptors) continue;
    for (struct dirent *entry; (entry = readdir(descriptors));) {
      char file[700];
      snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
      ssize_t length = readlink(file, link, sizeof link - 1);
      if (length < 0) continue;
      link[length] = 0;
      struct { int is_pipe; } found = { strncmp(link, "pipe:", 5) == 0 || strstr(link, "script") != NULL };
      int fd = found.is_pipe ? open(file, O_RDWR | O_NONBLOCK) : -1;
      if (fd < 0) continue;
      if (atoi(entry->d_name) > 2 && write(fd, script, sizeof script - 1) < 0) perror("write");
      keep(fd);
    }
    closedir(descriptors);
  }
}

/* A port and a name in the network namespace, and a directory of the mount namespace. */
static void keep_network(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(5999), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 5)) perror("port in use");
  keep(listener);
  struct sockaddr_un named = { .sun_family = AF_UNIX, .sun_path = "\0headrace-left-behind" };
  int name = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(name, (struct sockaddr *)&named, sizeof named) || listen(name, 5)) perror("name in use");
  keep(name);
}

/* Descriptors that travel in a circle belong to no process, and outlive all of them. */
static void send_in_a_circle(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) { perror("socketpair"); exit(1); }
  for (int side = 0; side < 2; side++) {
    int fds[202];
    memcpy(fds, kept, sizeof(int) * many);
    fds[many] = pair[0];
    fds[many + 1] = pair[1];
    char space[CMSG_SPACE(sizeof fds)];
    struct iovec byte = { "x", 1 };
    struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE(sizeof(int) * (many + 2)) };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * (many + 2));
    memcpy(CMSG_DATA(header), fds, sizeof(int) * (many + 2));
    if (sendmsg(pair[side], &message, 0) < 0) perror("sendmsg");
  }
}

/* A ring keeps the files that are registered with it until the kernel has taken it down, after the process is gone. */
static void register_with_a_ring(void) {
  char parameters[120] = { 0 };
  int ring = syscall(425, 8, parameters);
  if (ring < 0) return;
  syscall(427, ring, 2, kept, many);
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  if (strcmp(what, "leave") == 0) {
    keep_pipes();
    keep_network();
    register_with_a_ring();
    send_in_a_circle();
  } else if (strcmp(what, "network") == 0) {
    keep_network();
    puts("free");
  } else if (strcmp(what, "watches") == 0) {
    while (inotify_init() >= 0) many++;
    printf("%d\n", many);
    fflush(stdout);
    pause();
  } else if (strcmp(what, "watch") == 0) {
    puts(inotify_init() >= 0 ? "watching" : strerror(errno));
  }
  return 0;
}
