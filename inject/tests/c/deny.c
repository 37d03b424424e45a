/* Runs a program for which the system refuses calls, as containers and small kernels do: deny NAME... -- PROGRAM
 * ARGUMENTS, where NAME is `readv` (process_vm_readv) or `pipe` (pipe2). Exit code 77: this system has no such filters. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int deny(unsigned number) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
    int at = 1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 77;
    for (; at < argc && strcmp(argv[at], "--"); at++)
        if (deny(strcmp(argv[at], "pipe") ? SYS_process_vm_readv : SYS_pipe2)) return 77;
    if (at + 1 >= argc) return 2;
    execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 1;
}
