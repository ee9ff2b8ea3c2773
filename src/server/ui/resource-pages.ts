import type { ErrorCode } from '../../shared/errors.ts';
import type { FieldTable } from './controls.ts';
import { pageForm, recordForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice as noticeOf, type Page } from './layout.ts';
import type { NoticeName } from './notices.ts';
import type { DeletionName, PageAction, PageDefinition, PageVisit } from './pages.ts';
import type { PageRoute } from './site.ts';

/** A new record, its page and its deletion look and work the same, whatever it is a record of. */

/** Makes a page of a project's settings, or another. */
type Frame<Visit> = (
  definition: Omit<PageDefinition, 'show'> & { isQuestion?: boolean; show: (visit: Visit) => Promise<Page> },
) => PageRoute[];

interface Deletion<One, Visit> {
  frame: Frame<Visit>;
  path: string;
  route: DeletionName;
  read: (visit: Visit) => Promise<One>;
  question: (one: One) => string;
  /** The record, and everything deleted with it. */
  goes: (one: One, visit: Visit) => Html | Promise<Html>;
  /** The page after it. */
  back: (visit: PageVisit) => string;
  /** The page that the user came from, if it is another. */
  keep?: (visit: PageVisit) => string;
  refusals?: Partial<Record<ErrorCode, string>>;
  button?: string;
  notice?: NoticeName;
}

/** Asks once, and lists everything that is deleted. The button here is a form with GET. A refusal is shown here. */
export function deletionPage<One, Visit extends PageVisit>(of: Deletion<One, Visit>): PageRoute[] {
  const { frame, path, route, back, keep = back, refusals, button = 'Delete', notice = 'deleted' } = of;
  return frame({
    path,
    isQuestion: true,
    async show(visit) {
      await visit.api.admit(route);
      const one = await of.read(visit);
      const title = of.question(one);
      return {
        title,
        main: html`<h1>${title}</h1>
          <div class="card confirm">
            ${await of.goes(one, visit)}
            <p>This cannot be undone.</p>
            <div class="row choice">
              ${pageForm(visit, 'delete').wrap(false, { button, kind: 'danger' })}
              <a class="button" href="${keep(visit)}">Keep it</a>
            </div>
          </div>`,
      };
    },
    actions: {
      delete: { route, done: (_, visit) => ({ goTo: back(visit), notice }), ...(refusals && { refusals }) },
    },
  });
}

interface Resource<One, Visit, Name extends string> extends Omit<Deletion<One, Visit>, 'route' | 'question'> {
  /** As in `New hook`, `Create hook` and `Delete this hook?`. */
  noun: string;
  /** If it has one, it is the title of its page. */
  name?: (one: One) => string;
  /** If the title of its page is not enough. */
  heading?: (one: One) => string | Html;
  /** What the page before is called. */
  all: string;
  form: FieldTable<Name>;
  /** If not always all of them. */
  fields?: (form: PageForm<Name>, visit: Visit, one?: One) => Html | Promise<Html>;
  /** The action of the page with all of them, and its button. */
  creation?: { action?: string; button?: string; kind?: 'plain' };
  /** Without it, none is changed. */
  save?: PageAction;
  actions?: Record<string, PageAction>;
  showsSecrets?: boolean;
  /** Beside the one that deletes it. */
  buttons?: (one: One, visit: Visit) => Html | false;
  /** Above and below the form. */
  above?: (one: One, visit: Visit) => Html | Promise<Html>;
  below?: (one: One, visit: Visit) => Html | Promise<Html>;
  delete: DeletionName;
  mayDelete?: (visit: Visit) => boolean;
  question?: (one: One) => string;
}

interface ResourcePages<Visit> {
  newForm: (visit: Visit) => Promise<Html>;
  routes: PageRoute[];
}

export function resource<One extends object, Visit extends PageVisit, Name extends string>(
  of: Resource<One, Visit, Name>,
): ResourcePages<Visit> {
  const { noun, name, frame, path, read, form: table, save, mayDelete = () => true } = of;
  const Noun = `${noun.charAt(0).toUpperCase()}${noun.slice(1)}`;
  const { fields = (form) => form.fields() } = of;
  const { action = 'create', button = `Create ${noun}`, kind = 'main' } = of.creation ?? {};
  const change = frame({
    path,
    showsSecrets: of.showsSecrets ?? false,
    async show(visit) {
      const one = await read(visit);
      const title = name?.(one) ?? Noun;
      const form = recordForm(visit, 'save', table, one);
      const shown = save && form.wrap(await fields(form, visit, one), { button: 'Save', isCard: true, label: Noun });
      return {
        title,
        main: html`${backLink(of.back(visit), of.all)}
          <div class="title">
            <h1>${of.heading?.(one) ?? title}</h1>
            ${of.buttons?.(one, visit)} ${mayDelete(visit) && deletionButton(`${visit.path}/delete`)}
          </div>
          ${await of.above?.(one, visit)} ${shown} ${await of.below?.(one, visit)}`,
      };
    },
    actions: { ...(save && { save }), ...of.actions },
  });
  const question = of.question ?? ((one) => `Delete ${name?.(one) ?? `this ${noun}`}?`);
  return {
    async newForm(visit) {
      const form = recordForm(visit, action, table);
      return form.wrap(await fields(form, visit), { button, kind, isCard: true, label: `New ${noun}` });
    },
    routes: [...change, ...deletionPage({ ...of, question, path: `${path}/delete`, route: of.delete })],
  };
}

/** Secrets that cannot be shown again, and where to go on. */
export function shownOnce({
  title,
  secrets,
  next,
  what = 'secret',
}: {
  title: string;
  secrets: Html;
  next: string;
  what?: string;
}): Page {
  return {
    title,
    isWorthPacking: false,
    main: html`<h1>${title}</h1>
      ${noticeOf('good', `The ${what} is shown this once: copy it now.`)} ${secrets}
      <p><a class="button main" href="${next}">Go on</a></p>`,
  };
}

export function backLink(path: string, title: string): Html {
  return html`<p class="aside"><a href="${path}">${title}</a></p>`;
}

export function deletionButton(path: string, describedBy?: string): Html {
  return buttonTo(path, { button: 'Delete', kind: 'danger', describedBy });
}

/** Of a row in a table, for what `describedBy` names. */
export function rowActions(path: string, describedBy: string): Html {
  return html`<div class="row end">
    <a href="${path}" aria-describedby="${describedBy}">Change</a>
    ${deletionButton(`${path}/delete`, describedBy)}
  </div>`;
}

export function buttonTo(
  path: string,
  { button, kind, describedBy }: { button: string; kind: 'plain' | 'danger'; describedBy?: string | undefined },
): Html {
  return html`<form method="get" action="${path}" class="inline">
    <button class="${kind}" ${describedBy !== undefined && html`aria-describedby="${describedBy}"`}>${button}</button>
  </form>`;
}
