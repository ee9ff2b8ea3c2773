import { Failure } from '../client/failure.ts';
import type { Build, Project } from '../client/operations.ts';
import type { Call } from './command.ts';
import { WrongUse } from './errors.ts';
import { onInterrupt } from './follow.ts';
import { copyLog, LogWriter } from './log-output.ts';
import { findRequest } from './project.ts';
import { hintAtShell } from './shell-hint.ts';
import { words } from './text.ts';

export async function run(call: Call): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const build = await findBuild(call, project, call.args[0] ?? '');
  const place = { project_id: project.id_str, build_id: build.id_str };
  if (screen.isJson) return screen.json({ build, log: await client.text('buildLog', place) });
  if (!call.has('follow')) {
    await copyLog(await client.bytes('buildLog', place), screen);
    if (screen.isLive) await hintAtShell(call, place);
    return;
  }
  using _ = onInterrupt(() => screen.hint(`The build goes on. Come back with: headrace logs ${build.id_str} --follow`));
  const writer = new LogWriter(screen, screen.out.isTTY);
  for await (const { event, text = '' } of client.follow('buildEvents', place))
    if (event === 'log') await writer.write(text);
  await writer.end();
}

/** A build by its identifier, or the newest one of a suite on the branch of the folder. */
export async function findBuild(call: Call, project: Project, named: string): Promise<Build> {
  const { client, cwd } = call;
  const inProject = { project_id: project.id_str };
  if (/^\d+$/.test(named)) {
    const found = await client.call('build', { ...inProject, build_id: named }).catch((error: unknown) => {
      if (error instanceof Failure && error.kind === 'not_found') return undefined;
      throw error;
    });
    if (found) return found;
  }
  const suites = await client.call('suites', inProject);
  const suite = suites.find(({ name }) => name === named);
  if (!suite) throw new WrongUse(words`${project.name} has no build and no suite ${named}. See: headrace builds`);
  const request = await findRequest(client, project, { named: undefined, cwd });
  const builds =
    request.commit_id_str === ''
      ? []
      : await client.call('buildsOfCommit', { ...inProject, commit_id: request.commit_id_str }, { limit: '1000' });
  const build = builds.find(({ suite_id_str: id }) => id === suite.id_str);
  if (!build) throw new WrongUse(words`${named} was not built on ${request.commit_ref}. See: headrace status`);
  return build;
}
