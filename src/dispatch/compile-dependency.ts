import type { DependencyRow } from '../db/schema.ts';
import { mostTries } from '../lifecycle/builds.ts';
import { beginCompile, failCompile, finishCompile } from '../lifecycle/dependencies.ts';
import type { Layer } from '../lifecycle/software.ts';
import { addLine } from '../streams/logs.ts';
import type { Bench, Kind } from './kind.ts';
import { inTheWorks, relatedSoftware, sayWaiting } from './software.ts';

/** A dependency's newest archive is compiled; exit 0 with something under the prefix is a result. */
export const compileDependency: Kind = {
  async order(bench, job) {
    const dependency = await dependencyOf(bench, job.subject_id);
    if (!dependency) return undefined;
    const { archive, archive_kind: kind, archive_file_size: size } = dependency;
    if (archive === null || kind === null || size === null) return undefined;
    const { missing, layers, ...software } = await relatedSoftware(bench, dependency.id);
    const awaited = mustWait(dependency, layers) ? await inTheWorks(bench, dependency.owner_id, layers) : [];
    if (awaited.length > 0) {
      await sayWaiting(bench, dependency.id, awaited);
      return 'later';
    }
    if (missing.length > 0) {
      await failCompile(bench, dependency, missing.map(notCompiled).join('\n'));
      return undefined;
    }
    if (!(await beginCompile(bench, dependency))) return undefined;
    const { source, command, prefix } = dependency;
    return {
      kind: 'compile_dependency',
      archive: { digest: archive, size: Number(size), kind },
      source,
      command,
      prefix,
      environment: {
        CI: 'true',
        HEADRACE: 'true',
        HEADRACE_DEPENDENCY_ID: String(dependency.id),
        HEADRACE_PREFIX: prefix,
      },
      ...software,
      limits: bench.limits,
      unpacked: bench.unpacked,
    };
  },

  outcomes: ['compiled', 'uncompilable', 'timed_out', 'killed', 'cancelled'],

  async settle(bench, job, outcome) {
    const dependency = await dependencyOf(bench, job.subject_id);
    if (!dependency) return;
    if (outcome.kind === 'compiled') await finishCompile(bench, dependency, outcome.digest);
    else await failCompile(bench, dependency);
  },

  async lose(bench, job) {
    const dependency = await dependencyOf(bench, job.subject_id);
    if (!dependency) return { retry: false };
    if (job.tries < mostTries) {
      const again = `The runner was lost. Another one begins again (try ${job.tries + 1} of ${mostTries}).`;
      await addLine(bench.db, bench.trx, dependency.id, again);
      return { retry: true };
    }
    await failCompile(bench, dependency, `The runner was lost ${mostTries} times: it is given up.`);
    return { retry: false };
  },
};

/** Where two came to be compiled against each other, neither waits: it would be for ever. One that has begun goes on. */
function mustWait({ id, state }: DependencyRow, layers: readonly Layer[]): boolean {
  return state !== 'compiling' && !layers.some((layer) => layer.id === id);
}

function notCompiled({ name }: Layer): string {
  return `It is compiled against ${name}, which is not compiled itself. Upload or mend that one first.`;
}

async function dependencyOf({ trx }: Bench, id: bigint): Promise<DependencyRow | undefined> {
  return trx.selectFrom('dependencies').selectAll().where('id', '=', id).executeTakeFirst();
}
