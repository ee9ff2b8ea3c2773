import { icon, stylesheet } from './assets.ts';
import { html, type Html } from './html.ts';

/** A page as a handler describes it. */
export interface Page {
  title: string;
  main: Html;
  status?: number;
  /** A small question in the middle, and nothing around it. */
  isNarrow?: boolean;
  /** Where a form of the page may lead beside this site, in the words of a content security policy. */
  formTarget?: string | undefined;
  headers?: Record<string, string>;
}

/** Who the page is shown to. */
export interface Viewer {
  email: string | undefined;
  /** What proves that a form was sent from one of our pages. */
  formKey: string;
  path: string;
}

const mark = html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
  <path d="M5 12c4-4 7-4 11 0s7 4 11 0M5 21c4-4 7-4 11 0s7 4 11 0" />
</svg>`;

export function render({ title, main, isNarrow = false }: Page, viewer: Viewer): string {
  const { email } = viewer;
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} – Headrace</title>
        <link rel="stylesheet" href="${stylesheet.path}" />
        <link rel="icon" href="${icon.path}" />
      </head>
      <body class="${isNarrow ? 'narrow' : 'wide'}">
        <a class="skip" href="#main">Skip to the content</a>
        <header>
          <a class="brand" href="/ui/">${mark}<span>Headrace</span></a>
          ${email !== undefined && !isNarrow && navigation(email, viewer)}
        </header>
        <main id="main">${main}</main>
      </body>
    </html> `;
  return page.text;
}

function navigation(email: string, { formKey, path }: Viewer): Html {
  const link = (target: string, text: string): Html =>
    html`<a href="${target}" ${path === target && html`aria-current="page"`}>${text}</a>`;
  return html`<nav aria-label="Site">
    ${link('/ui/', 'Projects')} ${link('/ui/applications', 'Applications')}
    <form method="post" action="/ui/sign-out" class="who">
      ${keyField(formKey)}
      <a class="email" href="/ui/account" ${path === '/ui/account' && html`aria-current="page"`}>${email}</a>
      <button class="quiet">Sign out</button>
    </form>
  </nav>`;
}

/** Stands in every form. */
export function keyField(formKey: string): Html {
  return html`<input type="hidden" name="form_key" value="${formKey}" />`;
}

/** Said aloud by a screen reader when the page comes. */
export function notice(kind: 'good' | 'bad', text: string | Html): Html {
  return html`<p class="notice ${kind}" role="${kind === 'bad' ? 'alert' : 'status'}">${text}</p>`;
}

export function problem(status: number, title: string, text: string): Page {
  return {
    status,
    title,
    isNarrow: true,
    main: html`<div class="card">
      <h1>${title}</h1>
      <p>${text}</p>
      <p><a href="/ui/">Go to the start page</a></p>
    </div>`,
  };
}
