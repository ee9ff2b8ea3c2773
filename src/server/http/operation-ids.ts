import type { RouteDescription } from './route.ts';

type Named = Pick<RouteDescription, 'method' | 'path' | 'status' | 'answer' | 'streams'>;

const verbs = { POST: 'create', PUT: 'change', PATCH: 'append', DELETE: 'delete' } as const;

/** A verb and the records of the path without the project: `listBuilds`, `fetchSuiteRule`, `cancelBuildRequest`. */
export function operationId(route: Named): string {
  const { method, path, status } = route;
  const parts = path.split('/').filter((part) => part !== '');
  const segments =
    parts[0] === 'projects' && parts.some((part, at) => at > 0 && !part.startsWith(':')) ? parts.slice(1) : parts;
  const nouns = segments.flatMap((part, at) => {
    if (part.startsWith(':')) return [];
    const isOne = segments[at + 1]?.startsWith(':') ?? status === 201;
    return [isOne ? singular(part) : part];
  });
  const isCall = method === 'POST' && status !== 201 && parts.at(-2)?.startsWith(':');
  if (!isCall) return camel([verbOf(route), ...nouns]);
  // The last word is the action: `cancel`, or `check_connection`.
  const [verb = '', ...object] = nouns.at(-1)?.split('_') ?? [];
  const record = nouns.length > 1 ? nouns.slice(0, -1) : ['project'];
  return camel([verb, ...record, ...object]);
}

function verbOf({ method, answer, streams }: Named): string {
  if (method !== 'GET') return verbs[method];
  return !streams && (answer as { type?: string }).type === 'array' ? 'list' : 'fetch';
}

function singular(word: string): string {
  return word.endsWith('ies') ? `${word.slice(0, -3)}y` : word.replace(/s$/, '');
}

function camel(words: readonly string[]): string {
  const parts = words.flatMap((word) => word.split(/[_.]/));
  return parts.map((part, at) => (at === 0 ? part : part.charAt(0).toUpperCase() + part.slice(1))).join('');
}
