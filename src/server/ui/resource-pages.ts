import type { ErrorCode } from '../../shared/errors.ts';
import type { FieldTable } from './controls.ts';
import { pageForm, recordForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice as noticeOf, type Page } from './layout.ts';
import type { NoticeName } from './notices.ts';
import type { DeletionName, OpenPageVisit, PageAction, PageDefinition } from './pages.ts';
import type { PageRoute } from './site.ts';

/** All kinds of records have the same pages for creation, change and deletion. */

/** Makes a page inside a frame, such as the project's settings. */
type Frame<Visit> = (
  definition: Omit<PageDefinition, 'show'> & { isQuestion?: boolean; show: (visit: Visit) => Promise<Page> },
) => PageRoute[];

interface Deletion<One, Visit> {
  frame: Frame<Visit>;
  path: string;
  route: DeletionName;
  read: (visit: Visit) => Promise<One>;
  question: (one: One) => string;
  /** Shows the record and everything deleted with it. */
  goes: (one: One, visit: Visit) => Html | Promise<Html>;
  /** The page after the deletion. */
  back: (visit: OpenPageVisit) => string;
  /** The page to return to without a deletion, if it is another. */
  keep?: (visit: OpenPageVisit) => string;
  refusals?: Partial<Record<ErrorCode, string>>;
  button?: string;
  notice?: NoticeName;
}

/**
 * Asks once, and lists everything that will be deleted. The button that leads here is a form with GET. A refusal is
 * shown here.
 */
export function deletionPage<One, Visit extends OpenPageVisit>(of: Deletion<One, Visit>): PageRoute[] {
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
  /** The word for a record, as in `New hook`, `Create hook` and `Delete this hook?`. */
  noun: string;
  /** The name of the record and title of its page, if it has a name. */
  name?: (one: One) => string;
  /** A longer heading than the page's title. */
  heading?: (one: One) => string | Html;
  /** The label of the link to the list. */
  all: string;
  form: FieldTable<Name>;
  /** The fields to show, if not always all. */
  fields?: (form: PageForm<Name>, visit: Visit, one?: One) => Html | Promise<Html>;
  /** The action that creates a record on the list's page, and its button. */
  creation?: { action?: string; button?: string; kind?: 'plain' };
  /** Without it, records cannot be changed. */
  save?: PageAction;
  actions?: Record<string, PageAction>;
  showsSecrets?: boolean;
  /** Buttons next to the delete button. */
  buttons?: (one: One, visit: Visit) => Html | false;
  /** Parts above and below the form. */
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

export function resource<One extends object, Visit extends OpenPageVisit, Name extends string>(
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

/** A page with secrets that cannot be shown again, and a link to the next page. */
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

/** The links of a table row. `describedBy` is the ID of the row's name. */
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
