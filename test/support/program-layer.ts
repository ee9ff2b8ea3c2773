import { execFileSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import { tarOf } from './tar.ts';

/** A layer of these programs of the machine, with the libraries that they need, and of other files and directories. */
export async function programLayer(programs: readonly string[], others: readonly string[] = []): Promise<Buffer> {
  const needed = (await run('ldd', [...programs])).stdout.toString().match(/(?<=\s)\/\S+(?= \(0x)/g) ?? [];
  const all = [...new Set([...programs, ...needed, ...others])].map((path) => path.slice(1));
  const packed = await run('tar', ['-C', '/', '-c', '-h', '--numeric-owner', ...all], { maxOutput: 512 * 1024 ** 2 });
  if (packed.status !== 0) throw new Error(packed.stderr.toString());
  return packed.stdout;
}

/** A layer of Node, the one that runs this, with npm: in /usr/local, as the image that everybody has. */
export async function nodeLayers(): Promise<Buffer[]> {
  const npm = dirname(dirname(realpathSync(execFileSync('sh', ['-c', 'command -v npm']).toString().trim())));
  const moved = [
    `--transform=s|^${process.execPath.slice(1)}$|usr/local/bin/node|`,
    `--transform=s|^${npm.slice(1)}|usr/local/lib/node_modules/npm|`,
  ];
  const files = [process.execPath, npm].map((path) => path.slice(1));
  const packed = await run(
    'tar',
    ['-C', '/', '-c', '--owner=0', '--group=0', '--exclude=*/npm/man', '--exclude=*/npm/docs', ...moved, ...files],
    {
      maxOutput: 512 * 1024 ** 2,
    },
  );
  if (packed.status !== 0) throw new Error(packed.stderr.toString());
  const link = {
    name: 'usr/local/bin/npm',
    type: 'symbolic link',
    target: '../lib/node_modules/npm/bin/npm-cli.js',
  } as const;
  return [packed.stdout, tarOf([link])];
}
