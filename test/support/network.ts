import assert from 'node:assert/strict';
import { randomBytes, randomInt } from 'node:crypto';
import { run } from '../../src/lib/processes.ts';

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
  name: string;
  address: string;
  /** What a command begins with that runs there. */
  within: string[];
  /** Nothing comes or goes any more, and nobody is told. */
  unplug(): Promise<void>;
  plug(): Promise<void>;
}

/** Why there cannot be one here, or false. */
export async function noNetwork(): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'only root can make network namespaces';
  const name = `hrt${randomBytes(3).toString('hex')}`;
  const made = await run('ip', ['netns', 'add', name]);
  if (made.status !== 0) return `network namespaces cannot be made here: ${made.stderr.toString().trim()}`;
  await run('ip', ['netns', 'del', name]);
  return false;
}

export async function startNetwork(): Promise<Network> {
  const id = randomBytes(3).toString('hex');
  const bridge = `hrb${id}`;
  const subnet = `10.${randomInt(64, 128)}.${randomInt(256)}`;
  let last = 1;
  const free = (): string => `${subnet}.${(last += 1)}`;
  const made: string[] = [];
  const holders = new Map<string, Machine>();
  await ip('link', 'add', bridge, 'type', 'bridge');
  await ip('addr', 'add', `${subnet}.1/24`, 'dev', bridge);
  await ip('link', 'set', bridge, 'up');
  return {
    address: `${subnet}.1`,
    free,
    async machine() {
      const name = `hrt${id}${made.length}`;
      const cable = `hrv${id}${made.length}`;
      const address = free();
      made.push(name);
      await ip('netns', 'add', name);
      await ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
      await ip('link', 'set', cable, 'master', bridge, 'up');
      await ip('-n', name, 'addr', 'add', `${address}/24`, 'dev', 'eth0');
      for (const device of ['lo', 'eth0']) await ip('-n', name, 'link', 'set', device, 'up');
      return {
        name,
        address,
        within: ['ip', 'netns', 'exec', name],
        unplug: () => ip('link', 'set', cable, 'down'),
        plug: () => ip('link', 'set', cable, 'up'),
      };
    },
    async move(address, to) {
      const from = holders.get(address);
      if (from) await ip('-n', from.name, 'addr', 'del', `${address}/32`, 'dev', 'eth0');
      await ip('-n', to.name, 'addr', 'add', `${address}/32`, 'dev', 'eth0');
      holders.set(address, to);
      await ip('neigh', 'flush', 'dev', bridge); // as who takes an address over tells the others
    },
    async close() {
      for (const name of made) await run('ip', ['netns', 'del', name]);
      await run('ip', ['link', 'del', bridge]);
    },
  };
}

async function ip(...args: string[]): Promise<void> {
  const { status, stderr } = await run('ip', args);
  assert.equal(status, 0, `ip ${args.join(' ')}: ${stderr.toString()}`);
}
