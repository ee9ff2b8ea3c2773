import assert from 'node:assert/strict';
import type { Answer } from './client.ts';
import type { Service } from './service.ts';

type Fields = Record<string, string>;

/** A browser without scripts: it keeps cookies, and reads and sends forms. It does not follow redirects by itself. */
export class Tab {
  readonly #service: Service;
  readonly cookies = new Map<string, string>();

  constructor(service: Service) {
    this.#service = service;
  }

  async get(path: string, headers: Fields = {}): Promise<Answer> {
    return this.#keepCookies(await this.#service.api.get(path, { headers: this.#with(headers) }));
  }

  async post(path: string, form: Fields | [string, string][], headers: Fields = {}): Promise<Answer> {
    return this.#keepCookies(await this.#service.api.post(path, { form, headers: this.#with(headers) }));
  }

  /** Fills in the form of a page with this `action` and sends it. `undefined` leaves a field out. */
  submit(page: Answer, action: string, fields: Record<string, string | undefined> = {}, headers: Fields = {}) {
    const hidden = hiddenFields(page.text, action, fields.do).filter(([name]) => !(name in fields));
    const own = Object.entries(fields).filter((pair): pair is [string, string] => pair[1] !== undefined);
    return this.post(action, [...hidden, ...own], headers);
  }

  async signIn({ email, password }: { email: string; password: string }, returnTo = '/ui/'): Promise<Answer> {
    const page = await this.get(`/ui/sign-in?return=${encodeURIComponent(returnTo)}`);
    return this.submit(page, '/ui/sign-in', { email, password });
  }

  #with(headers: Fields): Fields {
    const cookie = Array.from(this.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    return cookie === '' ? headers : { cookie, ...headers };
  }

  #keepCookies(answer: Answer): Answer {
    for (const line of answer.headers['set-cookie'] ?? []) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/max-age=0/i.test(line)) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return answer;
  }
}

/** The hidden fields of the form with this action (and this `do`, where a page has several). A name may occur twice. */
function hiddenFields(page: string, action: string, does?: string): [string, string][] {
  const forms = Array.from(page.matchAll(/<form\b([^>]*)>(.*?)<\/form>/gs))
    .filter(([, attributes = '']) => /method="post"/.test(attributes) && attributes.includes(`action="${action}"`))
    .map(([, , inside = '']) => Array.from(inside.matchAll(/<input\b[^>]*>/gs), ([tag]) => tag))
    .map((tags) => tags.filter((tag) => /type="hidden"/.test(tag)))
    .map((tags) => tags.map((tag): [string, string] => [attribute(tag, 'name'), attribute(tag, 'value')]));
  const form = forms.find((fields) => fields.some(([name, value]) => name === 'do' && value === does)) ?? forms[0];
  assert.ok(form, `no form leads to ${action}: ${page}`);
  return form;
}

function attribute(tag: string, name: string): string {
  const [, value = ''] = new RegExp(`\\b${name}="([^"]*)"`).exec(tag) ?? [];
  const entities: Fields = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' };
  return value.replaceAll(/&[a-z0-9#]+;/g, (entity) => entities[entity] ?? entity);
}
