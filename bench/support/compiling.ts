import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { call, type Service } from './servers.ts';

/** Compiles a dependency of this many files and returns its identifier. */
export async function compileFiles(service: Service, name: string, files: number): Promise<string> {
  const prefix = `/opt/${name.replaceAll(' ', '-')}`;
  const places = `mkdir -p ${prefix}/lib && cd ${prefix}/lib`;
  const command = `${places} && for i in $(seq ${files}); do echo "$i" > file-$i; done`;
  const { id_ref: id } = await call<{ id_ref: string }>(service, '/dependencies', { name, command, prefix });
  const headers = { authorization: service.authorization };
  const answer = await fetch(`${service.url}/dependencies/${id}/archive`, { method: 'POST', headers, body: archive() });
  if (!answer.ok) throw new Error(await answer.text());
  for (;;) {
    const { marketplace_state: state } = await call<{ marketplace_state: string }>(service, `/dependencies/${id}`);
    if (state === 'compiled') return id;
    if (state === 'compile_failed') throw new Error(`${name} does not compile`);
    await pause(100);
  }
}

/** Any archive, because these compiles need no source. */
function archive(): Uint8Array<ArrayBuffer> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  try {
    writeFileSync(join(folder, 'README'), 'bench\n');
    execFileSync('tar', ['-cf', join(folder, 'archive'), '-C', folder, 'README']);
    return new Uint8Array(readFileSync(join(folder, 'archive')));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
