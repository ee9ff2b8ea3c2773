import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from './folders.ts';
import { freePort } from './ports.ts';

/** A Slurm cluster of a controller and two nodes on this machine, in folders, on ports and with a key of its own. */
export interface Cluster {
  /** What programs need in their environment to find it. */
  env: Record<string, string>;
  /** Runs one of Slurm's commands; answers what it said. */
  runProgram(program: string, ...args: string[]): Promise<string>;
  /** Every job that was ever submitted, with its state; they are kept for the life of the cluster. */
  jobs(): Promise<{ id: string; state: string; node: string }[]>;
  stopController(): Promise<void>;
  startController(): Promise<void>;
  close(): Promise<void>;
}

export const nodes = ['n1', 'n2'];

export async function startCluster(): Promise<Cluster> {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const socket = join(folder, 'munge.socket');
  const key = join(folder, 'munge.key');
  writeFileSync(key, randomBytes(128), { mode: 0o600 });
  const config = join(folder, 'slurm.conf');
  writeFileSync(config, await configFor(folder, socket));
  const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin`, SLURM_CONF: config };
  const daemons = new Map<string, ChildProcess>();
  const start = (name: string, program: string, ...args: string[]): void => {
    const child = spawn(program, args, { env, stdio: 'ignore' });
    daemons.set(name, child);
  };
  const stop = async (name: string): Promise<void> => {
    const child = daemons.get(name);
    daemons.delete(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  const runProgram = async (program: string, ...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await run(program, args, { env });
    if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr.toString()}`);
    return stdout.toString();
  };
  const startController = async (): Promise<void> => {
    start('controller', 'slurmctld', '-D', '-f', config);
    await until(async () => /UP/.test(await runProgram('scontrol', 'ping')));
  };

  const place = (name: string): string => join(folder, name);
  start(
    'munge',
    'munged',
    '-F',
    '-S',
    socket,
    '--key-file',
    key,
    '--pid-file',
    place('munge.pid'),
    '--log-file',
    place('munge.log'),
    '--seed-file',
    place('munge.seed'),
  );
  await until(() => runProgram('munge', '-n', '-S', socket));
  await startController();
  for (const node of nodes) start(node, 'slurmd', '-D', '-N', node, '-f', config);
  await until(
    async () =>
      (await runProgram('sinfo', '-h', '-N', '-o', '%T')).split('\n').filter((state) => state === 'idle').length === 2,
  );
  return {
    env: { SLURM_CONF: config },
    runProgram,
    async jobs() {
      const lines = await runProgram('squeue', '--noheader', '--array', '--states=all', '--format=%i %T %N');
      return lines
        .trim()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => {
          const [id = '', state = '', node = ''] = line.split(' ');
          return { id, state, node };
        });
    },
    startController,
    stopController: () => stop('controller'),
    async close() {
      if (daemons.has('controller')) await runProgram('scancel', '--user=root').catch(() => {});
      for (const name of [...daemons.keys()].reverse()) await stop(name);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function configFor(folder: string, socket: string): Promise<string> {
  const host = hostname();
  const [controller, ...ports] = await freePorts(1 + nodes.length);
  for (const name of ['state', ...nodes]) mkdirSync(join(folder, name), { mode: 0o755 });
  return `ClusterName=test
SlurmctldHost=${host}(127.0.0.1)
SlurmctldPort=${controller}
AuthType=auth/munge
AuthInfo=socket=${socket}
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd.%n.pid
SlurmctldLogFile=${folder}/slurmctld.log
SlurmdLogFile=${folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
MpiDefault=none
ReturnToService=2
KillWait=10
MinJobAge=3600
MaxJobCount=20000
${nodes.map((node, at) => `NodeName=${node} NodeHostname=${host} NodeAddr=127.0.0.1 Port=${ports[at]} CPUs=4 RealMemory=1000`).join('\n')}
PartitionName=main Nodes=${nodes.join(',')} Default=YES MaxTime=INFINITE State=UP
`;
}

async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}

/** A daemon that does not come up ends the test by its own limit of time. */
async function until(holds: () => Promise<unknown>): Promise<void> {
  for (;;) {
    if (await holds().catch(() => false)) return;
    await pause(50);
  }
}
