import { existsSync, readFileSync } from 'node:fs';

/** The facts that decide this process's rights and the commands to advise. */
export interface Surroundings {
  /** The container's engine, if it can be detected; undefined outside. */
  container: 'docker' | 'podman' | 'container' | undefined;
  isRoot: boolean;
  /** Whether this process may administer namespaces without a user namespace. */
  administers: boolean;
}

export function surroundings(): Surroundings {
  return { container: container(), isRoot: process.getuid?.() === 0, administers: administers() };
}

/** CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP, NET_ADMIN, SYS_CHROOT, SYS_ADMIN, MKNOD. */
const needed = [0, 1, 3, 5, 6, 7, 8, 12, 18, 21, 27];

/** In a container root may lack these rights. */
export function administers(): boolean {
  return needed.every(isCapable);
}

export function isCapable(number: number): boolean {
  const [, effective = '0'] = /^CapEff:\s+([0-9a-f]+)$/m.exec(textOf('/proc/self/status')) ?? [];
  return (BigInt(`0x${effective}`) & (1n << BigInt(number))) !== 0n;
}

/** If false, setuid programs such as newuidmap get no more rights than this process has. */
export function mayGainPrivileges(): boolean {
  return !/^NoNewPrivs:\s+1$/m.test(textOf('/proc/self/status'));
}

function container(): Surroundings['container'] {
  if (existsSync('/.dockerenv')) return 'docker';
  if (existsSync('/run/.containerenv') || process.env.container === 'podman') return 'podman';
  const groups = textOf('/proc/1/cgroup') + textOf('/proc/self/cgroup');
  const isKept =
    (process.env.container ?? '') !== '' ||
    process.env.KUBERNETES_SERVICE_HOST !== undefined ||
    /docker|kubepods|libpod|containerd|crio/.test(groups);
  if (isKept) return 'container';
  // An engine without other traces still drops root's capabilities and filters system calls. A systemd service, which
  // has INVOCATION_ID, may have such a filter too.
  const isFiltered = /^Seccomp:\s+2$/m.test(textOf('/proc/self/status'));
  return isFiltered && process.env.INVOCATION_ID === undefined ? 'container' : undefined;
}

/** Undefined if the kernel has no such setting. */
export function kernelSetting(name: string): string | undefined {
  return textOf(`/proc/sys/${name}`).trim() || undefined;
}

export function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
