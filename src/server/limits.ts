import { ConfigError, type Config } from '../shared/config.ts';
import { mostOpenFiles } from '../shared/lib/descriptors.ts';
import type { BuildLimits, UnpackLimits } from './dispatch/job-handler.ts';
import type { ConnectionLimits } from './http/connections.ts';

/** The least number of open files for the database, the runner's socket and other files. */
const filesApart = 128;

/** A quarter for one network: many clients behind one address have room, and no network can use all of it. */
export function connectionLimits({ connections: most }: Config): ConnectionLimits {
  if (most > mostOpenFiles() - filesApart) {
    throw new ConfigError(
      `connections = ${most} is too many: this process may have ${mostOpenFiles()} files open, and needs ${filesApart} of ` +
        'them for other things. Raise that limit (ulimit -n, or LimitNOFILE in systemd), or set fewer connections.',
    );
  }
  return { most, mostOfOne: Math.ceil(most / 4) };
}

export function limitsOf(config: Config): BuildLimits {
  return {
    memoryBytes: config.build_memory * 1024 * 1024,
    processes: config.build_processes,
    timeoutSeconds: config.build_timeout,
  };
}

export function unpackLimitsOf(config: Config): UnpackLimits {
  return { bytes: config.archive_size * 1024 * 1024, entries: config.archive_entries };
}
