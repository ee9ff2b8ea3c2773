import type { BuildVariables } from '../../shared/domain/build-variables.ts';
import type { DependencyRow } from '../db/schema.ts';
import { mostTries } from '../lifecycle/tries.ts';
import { beginCompile, failCompile, finishCompile } from '../software/dependencies.ts';
import type { Layer } from '../software/software.ts';
import { addLine } from '../streams/logs.ts';
import { findAwaited } from './awaited.ts';
import { imageOrder } from './images.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { relatedSoftware, logWaiting } from './software.ts';

/** Exit status 0 with files under the prefix is a result. */
export const compileDependency: JobHandler = {
  async order(context, job) {
    const dependency = await dependencyOf(context, job.subject_id);
    if (!dependency) return undefined;
    const { archive, archive_kind: kind, archive_file_size: size } = dependency;
    if (archive === null || kind === null || size === null) return undefined;
    const { layers } = await relatedSoftware(context, dependency.id);
    const below = mustWait(dependency, layers) ? layers.map(({ id }) => id) : [];
    const awaited = await findAwaited(context.trx, dependency.owner_id, below);
    if (awaited.length > 0) {
      await logWaiting(context, dependency.id, awaited);
      return { awaits: awaited.map(({ id }) => id) };
    }
    // Read the results only once nothing is awaited: a compile may end between the two queries.
    const { missing, layers: _, ...software } = await relatedSoftware(context, dependency.id);
    if (missing.length > 0) {
      await failCompile(context, dependency, missing.map(notCompiled).join('\n'));
      return undefined;
    }
    if (!(await beginCompile(context, dependency))) return undefined;
    const { source, command, prefix } = dependency;
    return {
      kind: 'compile_dependency',
      archive: { digest: archive, size: Number(size), kind },
      source,
      command,
      prefix,
      environment: {
        CI: 'true',
        ...({
          HEADRACE: 'true',
          HEADRACE_DEPENDENCY_ID: String(dependency.id),
          HEADRACE_PREFIX: prefix,
        } satisfies BuildVariables),
      },
      ...software,
      limits: context.limits,
      unpacked: context.unpacked,
      ...imageOrder(dependency.image, dependency.owner_id),
    };
  },

  outcomes: ['compiled', 'uncompilable', 'timed_out', 'killed', 'cancelled', 'store_away'],

  async settle(context, job, outcome) {
    const dependency = await dependencyOf(context, job.subject_id);
    if (!dependency) return;
    if (outcome.kind === 'compiled') await finishCompile(context, dependency, outcome.digest);
    else await failCompile(context, dependency);
  },

  async lose(context, job) {
    const dependency = await dependencyOf(context, job.subject_id);
    if (!dependency) return { retry: false };
    if (job.tries < mostTries) {
      const again = `The runner was lost. Another runner starts again (attempt ${job.tries + 1} of ${mostTries}).`;
      await addLine(context.db, context.trx, dependency.id, again);
      return { retry: true };
    }
    await failCompile(context, dependency, `The runner was lost ${mostTries} times. The compile has failed.`);
    return { retry: false };
  },
};

/** Dependencies that need each other do not wait, to avoid a deadlock. A compile that has begun continues. */
function mustWait({ id, state }: DependencyRow, layers: readonly Layer[]): boolean {
  return state !== 'compiling' && !layers.some((layer) => layer.id === id);
}

function notCompiled({ name }: Layer): string {
  return `It needs ${name}, which is not compiled. Upload or fix ${name} first.`;
}

async function dependencyOf({ trx }: JobContext, id: bigint): Promise<DependencyRow | undefined> {
  return trx.selectFrom('dependencies').selectAll().where('id', '=', id).executeTakeFirst();
}
