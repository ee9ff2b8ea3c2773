import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { run } from '../../src/shared/lib/processes.ts';

/** A network of machines of its own, each a network namespace on one bridge; this machine is on it too. */
export interface Network {
  /** This machine's address in it. */
  address: string;
  machine(): Promise<Machine>;
  /** Gives an address to a machine; whoever had it before has it no more. */
  move(address: string, to: Machine): Promise<void>;
  /** Another address that no machine has. */
  free(): string;
  close(): Promise<void>;
}

export interface Machine {
  address: string;
  /** What a command begins with that runs there. */
  within: string[];
  /** Nothing comes or goes any more, and nobody is told. */
  unplug(): Promise<void>;
  plug(): Promise<void>;
}

export async function startNetwork(): Promise<Network> {
  const id = randomBytes(3).toString('hex');
  const bridge = `hrb${id}`;
  const subnet = `10.${randomInt(64, 128)}.${randomInt(256)}`;
  let last = 1;
  const free = (): string => `${subnet}.${(last += 1)}`;
  const holderProcesses: ChildProcess[] = [];
  const holders = new Map<string, Machine>();
  await ip('link', 'add', bridge, 'type', 'bridge');
  await ip('addr', 'add', `${subnet}.1/24`, 'dev', bridge);
  await ip('link', 'set', bridge, 'up');
  return {
    address: `${subnet}.1`,
    free,
    async machine() {
      const cable = `hrv${id}${holderProcesses.length}`;
      const address = free();
      // The namespace lives as long as this process, which ends with the test. One with a name would be a mount that all
      // processes of this machine share, and that another test can take away.
      const holder = spawn('unshare', ['--net', 'sh', '-c', 'echo; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
      holderProcesses.push(holder);
      await once(holder.stdout, 'data');
      const within = ['nsenter', `--net=/proc/${holder.pid}/ns/net`];
      await ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(holder.pid));
      await ip('link', 'set', cable, 'master', bridge, 'up');
      await must(...within, 'ip', 'addr', 'add', `${address}/24`, 'dev', 'eth0');
      for (const device of ['lo', 'eth0']) await must(...within, 'ip', 'link', 'set', device, 'up');
      return {
        address,
        within,
        unplug: () => ip('link', 'set', cable, 'down'),
        plug: () => ip('link', 'set', cable, 'up'),
      };
    },
    async move(address, to) {
      const from = holders.get(address);
      if (from) await must(...from.within, 'ip', 'addr', 'del', `${address}/32`, 'dev', 'eth0');
      await must(...to.within, 'ip', 'addr', 'add', `${address}/32`, 'dev', 'eth0');
      holders.set(address, to);
      await ip('neigh', 'flush', 'dev', bridge); // as who takes an address over tells the others
    },
    async close() {
      for (const holder of holderProcesses) holder.stdin?.end();
      await run('ip', ['link', 'del', bridge]);
    },
  };
}

async function ip(...args: string[]): Promise<void> {
  await must('ip', ...args);
}

async function must(...[program = '', ...args]: string[]): Promise<void> {
  const { status, stderr } = await run(program, args);
  assert.equal(status, 0, `${program} ${args.join(' ')}: ${stderr.toString()}`);
}
