import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { CompileOrder } from '../../src/shared/protocol/index.ts';
import type { Record_ } from './client.ts';
import type { ScriptedRunner, Task } from './runner.ts';
import { archiveOf } from './software.ts';
import type { User } from './user.ts';

export interface Compiling {
  dependency: Record_;
  path: string;
  task: Task<CompileOrder>;
}

/** A dependency whose compile a runner has just begun. */
export async function compiling(
  user: User,
  runner: ScriptedRunner,
  fields: Record<string, string> = {},
): Promise<Compiling> {
  const dependency = await user.createDependency(fields);
  return { ...(await compilingAgain(user, runner, dependency)), dependency };
}

export async function compilingAgain(user: User, runner: ScriptedRunner, dependency: Record_): Promise<Compiling> {
  const answer = await user.upload(dependency, await archiveOf({ hello: 'hello\n' }));
  assert.equal(answer.status, 200, answer.text);
  return { dependency, path: `/dependencies/${dependency.id}`, task: await runner.take('compile_dependency') };
}

/** Ends a compile with this text as the result. */
export async function compiled(runner: ScriptedRunner, task: Task<CompileOrder>, content = 'result'): Promise<string> {
  const stored = await runner.dispatch.store(runner.self, task.order.claim, piecesOf(content));
  assert.ok('digest' in stored);
  assert.equal(stored.digest, createHash('sha256').update(content).digest('hex'));
  assert.deepEqual(await task.finish({ kind: 'compiled', digest: stored.digest }), { taken: true });
  return stored.digest;
}

async function* piecesOf(text: string): AsyncGenerator<Buffer> {
  for (const letter of text) yield Buffer.from(letter);
}
