import type { Service } from './servers.ts';

/** Signs the first user in like a browser, and returns the cookies. */
export async function signIn({ url, output }: Service): Promise<string> {
  const page = await fetch(`${url}/ui/sign-in`);
  const [, key = ''] = /name="form_key" value="([^"]+)"/.exec(await page.text()) ?? [];
  const password = /password\s+(\S+)/.exec(output)?.[1] ?? '';
  const body = new URLSearchParams({ form_key: key, email: 'admin@localhost', password, return: '/ui/' });
  const init = { method: 'POST', body, redirect: 'manual', headers: { cookie: cookieOf(page) } } as const;
  return cookieOf(await fetch(`${url}/ui/sign-in`, init));
}

function cookieOf({ headers }: Response): string {
  return headers
    .getSetCookie()
    .map((line) => line.split(';', 1)[0])
    .join('; ');
}
