import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { run } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../support/folders.ts';
import { project, said } from './support.ts';

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
  [key: string]: unknown;
}

export function manifestsIn(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => {
    const [error] = document.errors;
    if (error) throw error;
    return document.toJS() as Manifest;
  });
}

/** The module that has the published schema of a kind. */
function moduleOf({ apiVersion, kind }: Manifest): string {
  const [group = ''] = apiVersion.split('/');
  const home = group.endsWith('keda.sh') ? '@kubernetes-models/keda' : 'kubernetes-models';
  return `${home}/${apiVersion}/${kind}`;
}

/**
 * What is wrong with manifests by the schemas that Kubernetes and KEDA publish: the compiler's words about types, missing
 * keys and keys that there are not, which it finds because each manifest stands as a literal of its type; and those of the
 * schema itself about what types cannot say, such as the form of a number or a name.
 */
export async function wrongWith(manifests: readonly Manifest[]): Promise<string> {
  const folder = temporaryFolder();
  try {
    mkdirSync(join(folder, 'src'));
    symlinkSync(join(project, 'node_modules'), join(folder, 'node_modules'));
    const lines = manifests.flatMap((manifest, at) => [
      `import type { I${manifest.kind} as Kind${at} } from ${JSON.stringify(moduleOf(manifest))};`,
      `export const manifest${at}: Kind${at} = ${JSON.stringify(manifest)};`,
    ]);
    writeFileSync(join(folder, 'src/manifests.ts'), lines.join('\n'));
    const options = { strict: true, noEmit: true, skipLibCheck: true, module: 'nodenext', target: 'esnext', types: [] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['src'] }));
    const compiled = await run(join(project, 'node_modules/.bin/tsc'), ['-p', folder, '--pretty', 'false']);
    const words = compiled.status === 0 ? [] : [said(compiled)];
    for (const manifest of manifests) {
      const models = (await import(moduleOf(manifest))) as Record<string, new (data: Manifest) => { validate(): void }>;
      const Model = models[manifest.kind];
      if (Model === undefined) throw new Error(`there is no schema of ${manifest.kind}`);
      try {
        new Model(manifest).validate();
      } catch (error) {
        words.push(`${manifest.kind} ${manifest.metadata.name}: ${String(error)}`);
      }
    }
    return words.join('\n');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
