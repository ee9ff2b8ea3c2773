import type { Call } from '../api/call.ts';
import { ApiError } from '../../shared/errors.ts';
import { suites, type Entry } from '../../shared/documents/kinds.ts';

type Params = Readonly<Record<string, bigint>>;

interface Suite {
  id: bigint;
  name: string;
  manual: boolean;
}

async function suitesOf(within: Call['within'], { project_id: project = 0n }: Params): Promise<Suite[]> {
  return (await within(`GET ${suites.path}`, { project_id: project })) as Suite[];
}

/** A record has only the options of its type, a document has all of them. */
export async function withSuiteNames<Strategy extends object>(
  within: Call['within'],
  params: Params,
  strategies: readonly Strategy[],
): Promise<Strategy[]> {
  const names = new Map((await suitesOf(within, params)).map(({ id, name }) => [id, name]));
  const blank = { repository_url: '', clone_url: '', local_branch: '', remote_branch: '' };
  return strategies.map((strategy) => {
    const { options } = strategy as { options: { suite_id?: bigint } };
    return { ...strategy, options: { ...blank, ...options, suite_id: names.get(options.suite_id ?? 0n) ?? '' } };
  });
}

/** An earlier step may have created the suite. */
export async function withSuiteId(within: Call['within'], params: Params, entry: Entry): Promise<Entry> {
  const { suite = '' } = entry;
  if (suite === '') return entry;
  const found = (await suitesOf(within, params)).find(({ name }) => name === suite);
  if (!found) throw new ApiError('not_found', 'suite');
  if (!found.manual) throw new ApiError('invalid_format', 'suite');
  return { ...entry, suite: String(found.id) };
}
