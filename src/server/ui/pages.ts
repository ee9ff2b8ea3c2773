import { ApiError, type ErrorCode } from '../../shared/errors.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { emptyGroup, isGroup, type Raw, type RawGroup } from '../../shared/records/raw.ts';
import { pageForError } from './answers.ts';
import type { Refused } from './forms.ts';
import { html } from './html.ts';
import { notice, type Page } from './layout.ts';
import { noticeNamed, type NoticeName } from './notices.ts';
import { forAnybody, forPeople, proveFirst } from './site.ts';
import type { OpenVisit, PageRoute, PersonVisit, Response } from './site.ts';
import type { Answers } from '../resources/index.ts';
import type { RouteName } from './visit-api.ts';

/** Every action of a page is a route of the API. Its form is sent to the page's address, with the action in `do`. */
export interface PageDefinition {
  path: string;
  show: (visit: PageVisit) => Promise<Page>;
  actions?: Record<string, PageAction>;
  /** The page has nothing but a form that makes credentials. */
  makesCredentials?: boolean;
  /** If set, the page is not compressed. */
  showsSecrets?: boolean;
}

/** `refused` is set if a form of this page was refused and is shown again. */
export type PageVisit = PersonVisit & { refused: Refused | undefined };

export type OpenPageVisit = OpenVisit & { refused: Refused | undefined };

export type PageAction = { [Name in RouteName]: ActionOf<Name> }[RouteName] | ActionOf<DeletionName>;

/** All deletions have the same response. */
export type DeletionName = Extract<RouteName, `DELETE ${string}`>;

interface ActionOf<Name extends RouteName> {
  /** The path parameters come from the page's address or the form. */
  route: Name;
  fields?: (form: RawGroup, visit: PageVisit) => RawGroup;
  /** Asks for something that only a person is asked for. Throws a refusal. */
  before?: (visit: PageVisit) => Promise<void>;
  /** The next page and its notice. If only a notice is given, the page stays the same. */
  done: NoticeName | ((answer: Answers[Name], visit: PageVisit) => Next | Promise<Next>);
  refusals?: Partial<Record<ErrorCode, string>>;
  /** The answer is or has a credential, so the user must have proved recently who they are. */
  makesCredentials?: boolean;
}

type Next = { goTo: string; notice?: NoticeName } | Page;

export function page(definition: PageDefinition): PageRoute[] {
  const { path, makesCredentials = false } = definition;
  const shown = forPeople({
    method: 'GET',
    path,
    async visit(visit) {
      if (makesCredentials && !visit.visitor.isProven) return proveFirst(visit.url);
      return show(definition, visiting(visit));
    },
  });
  return [shown, ...acting(definition)];
}

type OpenDefinition = Omit<PageDefinition, 'show'> & { show: (visit: OpenPageVisit) => Promise<Page> };

/** A page that visitors who are not signed in may see. Its actions are for users. */
export function openPage(definition: OpenDefinition): PageRoute[] {
  const shown = forAnybody({
    path: definition.path,
    visit: async (visit) => show(definition, Object.assign(visit, { refused: undefined })),
  });
  return [shown, ...acting(definition)];
}

function acting(definition: PageDefinition): PageRoute[] {
  const { path, actions } = definition;
  if (!actions) return [];
  const acted = forPeople({
    method: 'POST',
    path,
    largestForm: bytes.body,
    async visit(visit) {
      const name = visit.formText('do');
      const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
      if (!action) return show(definition, visiting(visit));
      if (action.makesCredentials && !visit.visitor.isProven) return proveFirst(visit.path);
      return act(definition, action, name, visiting(visit));
    },
  });
  return [acted];
}

function visiting(visit: PersonVisit, refused?: Refused): PageVisit {
  return Object.assign(visit, { refused });
}

async function show<Visit extends OpenPageVisit>(
  { show: render, showsSecrets = false }: { show: (visit: Visit) => Promise<Page>; showsSecrets?: boolean },
  visit: Visit,
): Promise<Page> {
  const shown = await render(visit);
  const noticeText = noticeNamed(visit.queryText('done'));
  const main = noticeText === undefined ? shown.main : html`${notice('good', noticeText)}${shown.main}`;
  return { isWorthPacking: !showsSecrets, ...shown, main };
}

async function act(definition: PageDefinition, action: PageAction, name: string, visit: PageVisit): Promise<Response> {
  const { params, form } = divided(action.route, visit);
  const body = action.fields ? action.fields(form, visit) : form;
  const isBodiless = action.route.startsWith('DELETE');
  const parts = { params, body: isBodiless ? undefined : body };
  return attempt(definition, { ...action, name }, visit, async () => {
    await action.before?.(visit);
    return visit.api.call(action.route, parts);
  });
}

async function attempt(
  definition: PageDefinition,
  { name, done: after, refusals }: PageAction & { name: string },
  visit: PageVisit,
  work: () => Promise<Answers[RouteName]>,
): Promise<Response> {
  let answer: never;
  try {
    answer = (await work()) as never; // it is the response of this route
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const codes = Object.values(error.fields).flat();
    // The record is deleted or belongs to another user, so no form can be shown.
    const isGone = error.fields.generic?.includes('not_found') ?? false;
    if (isGone || codes.every((code) => closed.has(code))) return pageForError(error);
    const message = codes.map((code) => refusals?.[code]).find((text) => text !== undefined);
    visit.refused = { action: name, typed: visit.form, errors: error.fields, message, words: error.detail };
    return { ...(await show(definition, visit)), status: error.status };
  }
  const done = typeof after === 'string' ? { goTo: visit.path, notice: after } : await after(answer, visit);
  if (!('goTo' in done)) return done;
  return { goTo: done.notice === undefined ? done.goTo : withNotice(done.goTo, done.notice), status: 303 };
}

const closed = new Set<ErrorCode>(['unauthorized', 'payment_required', 'account_suspended']);

/**
 * Streams a file from `<form method="post" enctype="multipart/form-data" action="PATH/NAME?form_key=KEY">`. Its one
 * field has the upload route's name. If refused, the page is shown again with the name in `refused.action`.
 */
export function upload(of: PageDefinition, action: PageAction & { name: string }): PageRoute {
  const { name } = action;
  return forPeople({
    method: 'POST',
    path: `${of.path}/${name}`,
    takesFile: true,
    visit: (visit) => {
      // A refused page is shown at this address, but its other forms must use the page's own address.
      const path = visit.path.slice(0, -name.length - 1);
      const own = visiting(Object.assign(visit, { path }));
      return attempt(of, action, own, () => visit.api.call(action.route));
    },
  });
}

function withNotice(path: string, name: NoticeName): string {
  const [address = '', fragment] = path.split('#', 2);
  const target = `${address}${address.includes('?') ? '&' : '?'}done=${name}`;
  return fragment === undefined ? target : `${target}#${fragment}`;
}

function divided(route: RouteName, visit: PageVisit): { params: Record<string, string>; form: RawGroup } {
  const params: Record<string, string> = {};
  for (const [, name = ''] of route.matchAll(/:(\w+)/g))
    if (visit.param(name) === '') params[name] = visit.formText(name);
  const { form_key: _key, do: _do, unchecked, ...rest } = visit.form;
  const form = emptyGroup();
  for (const [name, value] of Object.entries(rest)) if (!(name in params)) form[name] = withPlainLines(value);
  // A browser sends nothing for an unchecked box.
  if (Array.isArray(unchecked)) for (const name of unchecked) if (typeof name === 'string') form[name] ??= 'false';
  return { params, form };
}

/** Browsers send CRLF line ends, and a command with CRLF does not run. */
function withPlainLines(value: Raw): Raw {
  if (typeof value === 'string') return value.replaceAll('\r\n', '\n');
  if (Array.isArray(value)) return value.map(withPlainLines);
  if (!isGroup(value)) return value;
  const group = emptyGroup();
  for (const [name, one] of Object.entries(value)) group[name] = withPlainLines(one);
  return group;
}
