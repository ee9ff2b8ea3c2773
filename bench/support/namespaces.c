// The least that isolation costs: starts a shell that does nothing, again and again, each with the kinds of namespaces,
// control groups, mounts and limits that the sandbox of a build has, and throws them away after it. No more than the
// system calls: nobody asks for a build here, nothing is heard of it, and no process is there that could be spared.
//
// usage: namespaces STARTS FOLDER FILTER GROUP...   (as root; FILTER is a seccomp filter, groups are made in each GROUP)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sock_filter filter[4096];
static pid_t self; // known to the children too, who see no parent from their namespaces

static void need(int done, const char *what) {
    if (done) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

__attribute__((format(printf, 1, 2))) static const char *path(const char *form, ...) {
    static char kept[8][4096];
    static int next;
    char *here = kept[next++ % 8];
    va_list more;
    va_start(more, form);
    vsnprintf(here, sizeof kept[0], form, more);
    va_end(more);
    return here;
}

static void put(const char *file, const char *value) {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    need(fd >= 0 && write(fd, value, strlen(value)) >= 0, file);
    close(fd);
}

static void attach(const char *from, const char *to, const char *type, unsigned long flags, const char *data) {
    need(mount(from, to, type, flags, data) == 0, to);
}

static void show(const char *from, const char *to, unsigned long flags) {
    struct statfs facts;
    attach(from, to, NULL, MS_BIND, NULL);
    need(statfs(to, &facts) == 0, to);
    attach("none", to, NULL, MS_REMOUNT | MS_BIND | flags | (facts.f_flags & 15), NULL);
}

// What all of them show alike is put together once.
static void make_base(const char *base) {
    static const char *const directories[] = {"usr", "etc", "dev", "dev/pts", "dev/shm", "proc", "tmp", "home", "build"};
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[] = {"bin", "lib", "lib64", "sbin"};
    attach("base", base, "tmpfs", MS_NOSUID, "mode=0755");
    for (size_t at = 0; at < sizeof directories / sizeof *directories; at++)
        need(mkdir(path("%s/%s", base, directories[at]), 0755) == 0, directories[at]);
    for (size_t at = 0; at < sizeof links / sizeof *links; at++)
        need(symlink(path("usr/%s", links[at]), path("%s/%s", base, links[at])) == 0, links[at]);
    for (size_t at = 0; at < sizeof devices / sizeof *devices; at++) {
        const char *place = path("%s/dev/%s", base, devices[at]);
        need(mknod(place, S_IFREG | 0444, 0) == 0, place);
        show(path("/dev/%s", devices[at]), place, MS_NOSUID);
    }
    show("/usr", path("%s/usr", base), MS_RDONLY | MS_NOSUID | MS_NODEV);
    show("/etc", path("%s/etc", base), MS_RDONLY | MS_NOSUID | MS_NODEV);
}

static void connect_loopback(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    need(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0, "lo");
    close(fd);
}

static void give_up_rights(unsigned short instructions) {
    struct { unsigned version; int pid; } head = {0x20080522, 0};
    unsigned none[6] = {0};
    struct sock_fprog program = {instructions, filter};
    for (int capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; capability++);
    need(syscall(SYS_capset, &head, none) == 0, "capset");
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0, "seccomp");
}

static void isolate(const char *folder, const char *root, unsigned short instructions) {
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 0 1");
    put("/proc/self/gid_map", "0 0 1");
    attach(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    attach(root, root, NULL, MS_BIND | MS_REC, NULL);
    attach("shm", path("%s/dev/shm", root), "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    attach("devpts", path("%s/dev/pts", root), "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    attach("proc", path("%s/proc", root), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    const char *layers = path("lowerdir=%s/lower,upperdir=%s/changes,workdir=%s/work,volatile,userxattr", folder, folder, folder);
    attach("overlay", path("%s/build", root), "overlay", MS_NOSUID | MS_NODEV, layers);
    attach(path("%s/tmp", folder), path("%s/tmp", root), NULL, MS_BIND, NULL);
    attach(path("%s/home", folder), path("%s/home", root), NULL, MS_BIND, NULL);
    need(chdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0, "pivot_root");
    attach("none", "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL);
    connect_loopback();
    need(sethostname("build", 5) == 0 && setsid() >= 0 && chdir("/build") == 0, "build");
    give_up_rights(instructions);
}

static const char *const own[] = {"lower", "changes", "work", "tmp", "home"};
static const char *const left[] = {"work/work/incompat/volatile/dirty", "work/work/incompat/volatile", "work/work/incompat", "work/work"};

static void start(const char *folder, const char *base, unsigned short instructions, char **groups) {
    int status, namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    for (char **group = groups; *group; group++) need(mkdir(path("%s/%d", *group, self), 0755) == 0, *group);
    for (size_t at = 0; at < sizeof own / sizeof *own; at++) mkdir(path("%s/%s", folder, own[at]), 0755);
    long child = syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
    need(child >= 0, "clone");
    if (child == 0) {
        for (char **group = groups; *group; group++) put(path("%s/%d/cgroup.procs", *group, self), "0");
        isolate(folder, base, instructions);
        execl("/bin/sh", "sh", "-c", "true", (char *)NULL);
        need(0, "sh");
    }
    need(waitpid(child, &status, 0) == child && status == 0, "the shell");
    for (size_t at = 0; at < sizeof left / sizeof *left; at++) remove(path("%s/%s", folder, left[at]));
    for (size_t at = 0; at < sizeof own / sizeof *own; at++) need(rmdir(path("%s/%s", folder, own[at])) == 0, own[at]);
    for (char **group = groups; *group; group++) need(rmdir(path("%s/%d", *group, self)) == 0, *group);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    int fd = open(words[3], O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, filter, sizeof filter);
    need(length > 0, words[3]);
    need(unshare(CLONE_NEWNS) == 0, "unshare");
    attach(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    char *base = strdup(path("%s/base", words[2]));
    need(base && mkdir(base, 0755) == 0, words[2]);
    make_base(base);
    self = getpid();
    for (int turn = atoi(words[1]); turn > 0; turn--) {
        char *folder = strdup(path("%s/%d", words[2], turn));
        need(folder && mkdir(folder, 0755) == 0, words[2]);
        start(folder, base, length / sizeof *filter, words + 4);
        need(rmdir(folder) == 0, folder);
        free(folder);
    }
    return 0;
}
