import { run } from '../../src/lib/processes.ts';

/** A layer of these programs of the machine, with the libraries that they need, and of other files and directories. */
export async function programLayer(programs: readonly string[], others: readonly string[] = []): Promise<Buffer> {
  const needed = (await run('ldd', [...programs])).stdout.toString().match(/(?<=\s)\/\S+(?= \(0x)/g) ?? [];
  const all = [...new Set([...programs, ...needed, ...others])].map((path) => path.slice(1));
  const packed = await run('tar', ['-C', '/', '-c', '-h', '--numeric-owner', ...all], { maxOutput: 512 * 1024 ** 2 });
  if (packed.status !== 0) throw new Error(packed.stderr.toString());
  return packed.stdout;
}
