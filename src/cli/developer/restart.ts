import { Failure } from '../client/failure.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { followRecord } from './follow-record.ts';
import { findBuild } from './named-build.ts';
import { words } from './text.ts';

export async function run(call: Call<{ follow?: true; fromStep?: string }>, named: string): Promise<number | void> {
  const { client, screen } = call;
  const { fromStep: step } = call.options;
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const { id_str: id, suite_name: suite, variant } = await findBuild(call, project, named);
  const name = nameWithVariant(suite, variant);
  const from = step === undefined ? {} : { from_step: step };
  const build = await client.call('restart', { ...inProject, build_id: id }, from).catch((error: unknown) => {
    if (error instanceof Failure && error.fields.includes('from_step'))
      throw new WrongUse(words`${name} has no step ${step ?? ''}.`);
    if (!(error instanceof Failure) || error.kind !== 'unavailable') throw error;
    throw new WrongUse(words`${name} cannot be restarted: an attempt is still running, or a deploy ran it.`);
  });
  if (call.options.follow)
    return followRecord(
      call,
      'buildEvents',
      { ...inProject, build_id: build.id_str },
      {
        name: words`build ${build.id_str} of ${name}`,
        leaves: `The build continues. Follow it with: headrace logs ${build.id_str} --follow`,
        record: build,
      },
    );
  if (screen.isJson) return screen.json(build);
  screen.print(words`${name} runs again. Follow it with: headrace logs ${build.id_str} --follow`);
}
