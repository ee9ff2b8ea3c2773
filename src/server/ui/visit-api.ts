import type { InnerCalls } from '../api/inner-calls.ts';
import type { Caller } from '../auth/callers.ts';
import type { PageOf } from '../http/paging.ts';
import { emptyGroup, type RawGroup } from '../../shared/records/raw.ts';
import type { Incoming, Role } from '../http/route.ts';
import type { Answers } from '../resources/index.ts';

/** Missing path parameters are taken from the page's address. */
export interface CallParts {
  params?: Record<string, string | bigint> | undefined;
  query?: Record<string, string | number | bigint | undefined>;
  body?: RawGroup | undefined;
}

/** The API's routes, called as the visitor. An uncaught refusal becomes an error page (404 for a hidden record). */
export interface VisitApi {
  call<Name extends RouteName>(name: Name, parts?: CallParts): Promise<Answers[Name]>;
  get<Path extends GetPath>(path: Path, parts?: CallParts): Promise<Answers[`GET ${Path}`]>;
  /** The result includes whether there are records before and after it. */
  list<Path extends GetPath>(path: Path, parts?: CallParts): Promise<PageOf<ItemOf<Answers[`GET ${Path}`]>>>;
  all<Path extends GetPath>(path: Path, parts?: CallParts): Promise<ItemOf<Answers[`GET ${Path}`]>[]>;
  /** Throws an error if the visitor may not call this route. Returns the visitor's role in the project of the page. */
  admit(name: RouteName): Promise<Role | undefined>;
}

export type RouteName = keyof Answers;
type GetPath = RouteName extends infer Name ? (Name extends `GET ${infer Path}` ? Path : never) : never;
export type LoggedPath = GetPath extends infer Path
  ? Path extends `${infer Logged}/log/view`
    ? Logged
    : never
  : never;
type ItemOf<List> = List extends readonly (infer Item)[] ? Item : never;

export type PageRequest = Pick<Incoming, 'id' | 'url' | 'params' | 'headers' | 'raw'>;

export function visitApi(calls: InnerCalls, caller: Caller, request: PageRequest): VisitApi {
  const incoming = (parts: CallParts): Incoming => ({
    id: request.id,
    url: request.url,
    params: { ...request.params, ...textsOf(parts.params ?? {}) },
    query: Object.assign(emptyGroup(), textsOf(parts.query ?? {})),
    body: parts.body,
    // Pages need no other headers, and other sites can hardly set any.
    headers: { 'content-type': request.headers['content-type'] },
    raw: request.raw,
  });
  const answerTo = (name: RouteName, parts: CallParts = {}) => calls.call(name, caller, incoming(parts));
  const pageAt = async (path: GetPath, parts?: CallParts) => {
    const answer = await answerTo(`GET ${path}`, parts);
    if ('record' in answer && Array.isArray(answer.record)) return pageOfOthers(answer.record, answer.headers?.link);
    if (!('page' in answer)) throw new Error(`${path} is no list in pages`);
    return answer.page;
  };
  return {
    async call(name, parts) {
      const answer = await answerTo(name, parts);
      if ('record' in answer) return answer.record as never;
      if ('page' in answer) return answer.page.items as never;
      throw new Error(`${name} answers no record`);
    },
    async get(path, parts) {
      return this.call(`GET ${path}`, parts);
    },
    list: async (path, parts) => (await pageAt(path, parts)) as never,
    async all(path, { query, ...parts } = {}) {
      const items: { id: bigint }[] = [];
      for (let older = true; older;) {
        const before = items.at(-1)?.id;
        const page = await pageAt(path, { ...parts, query: { ...query, limit: 1000, before } });
        items.push(...page.items);
        ({ older } = page);
      }
      return items as never;
    },
    async admit(name) {
      const { project } = await calls.admit(name, caller, request.params);
      return project?.role;
    },
  };
}

/** Another service's list names its previous and next page in its header `Link`. */
function pageOfOthers(items: { id: bigint }[], link = ''): PageOf<{ id: bigint }> {
  return { items, older: link.includes('rel="next"'), newer: link.includes('rel="prev"') };
}

function textsOf(values: Record<string, string | number | bigint | undefined>): Record<string, string> {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}
