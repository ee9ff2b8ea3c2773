import { readFileSync } from 'node:fs';
import { run } from '../../src/shared/lib/processes.ts';
import { imageOfTars, shellLayer, type TestImage, type TestRegistry } from './registry.ts';
import { tarOf } from './tar.ts';

/** An image of this machine's buildah and podman, with the libraries that they need, which trusts a registry. */
export async function builderImage({ host, certificate }: TestRegistry): Promise<TestImage> {
  const found = await run('which', ['buildah', 'podman', 'newuidmap', 'newgidmap', 'conmon', 'crun']);
  const files = found.stdout.toString().trim().split('\n');
  const needed = (await run('ldd', files)).stdout.toString().match(/(?<=\s)\/\S+(?= \(0x)/g) ?? [];
  const all = [...new Set([...files, ...needed])].map((path) => path.slice(1));
  const system = await run('tar', ['-C', '/', '-c', '-h', '--numeric-owner', ...all], { maxOutput: 512 * 1024 ** 2 });
  if (system.status !== 0) throw new Error(system.stderr.toString());
  const more = ['grep', 'sed', 'printf', 'test', 'base64'].map(
    (name) => ({ name: `bin/${name}`, type: 'symbolic link', target: 'busybox' }) as const,
  );
  const settings = tarOf([
    ...shellLayer(),
    ...more,
    { name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\n' },
    { name: 'etc/group', content: 'root:x:0:\n' },
    { name: 'etc/subuid', content: 'root:100000:65536\n' },
    { name: 'etc/containers/policy.json', content: '{"default": [{"type": "insecureAcceptAnything"}]}' },
    { name: `etc/containers/certs.d/${host}/ca.crt`, content: readFileSync(certificate) },
    { name: 'var/lib/', type: 'directory' },
  ]);
  return imageOfTars([settings, system.stdout], { env: ['PATH=/usr/bin:/bin'] });
}
