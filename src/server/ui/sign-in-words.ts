import type { Refusal } from '../auth/sign-in.ts';
import type { NotAdmitted } from '../oidc/arrive.ts';
import type { Issuer } from '../oidc/issuer.ts';
import { problem, type Page } from './layout.ts';

/** Leads only to our own pages, however the path is spelled. */
export function localPath(text: string): string {
  const here = 'https://headrace.invalid';
  if (!text.startsWith('/') || !URL.canParse(text, here)) return '/ui/';
  const { origin, pathname, search } = new URL(text, here);
  const isOwnPage = origin === here && (pathname.startsWith('/ui/') || pathname === '/oauth2/authorize');
  return isOwnPage ? `${pathname}${search}` : '/ui/';
}

export interface Told {
  status: number;
  message: string;
  headers?: Record<string, string>;
}

export function refusalOf(refusal: Refusal, wrong: string): Told {
  if (refusal.refused === 'wrong') return { status: 401, message: wrong };
  if (refusal.refused === 'suspended')
    return { status: 401, message: 'This account is suspended. Ask the operator of this server.' };
  if (refusal.refused === 'shut_out')
    return {
      status: 401,
      message: 'Your company’s sign-in no longer admits this account. Sign in there again, or ask the operator.',
    };
  return waitFor(refusal.seconds);
}

export function waitFor(seconds: number): Told {
  const time = seconds < 120 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`;
  const message = `Too many attempts went wrong. Wait ${time}, then try again.`;
  return { status: 429, message, headers: { 'retry-after': String(seconds) } };
}

const refusals: Record<NotAdmitted, (name: string) => string> = {
  group: (name) => `Your groups at ${name} do not admit you to this server. Ask the operator of this server.`,
  domain: (name) => `The domain of your e-mail address at ${name} is not admitted to this server.`,
  unverified: (name) => `${name} has not verified your e-mail address. Have it verified there, then try again.`,
  suspended: () => 'This account is suspended. Ask the operator of this server.',
  unknown: () => 'There is no account with your e-mail address here. Ask the operator of this server for one.',
  taken: (name) => `The account with your e-mail address belongs to another user of ${name}. Ask the operator.`,
  'link over': () => 'The link was used already, or is too old. The operator of this server can make another.',
  other: (name) => `You signed in at ${name} as another user. Nothing has changed here.`,
};

export function notAdmittedPage(why: NotAdmitted, { settings: { name } }: Issuer): Page {
  return problem(403, 'Not signed in', refusals[why](name));
}
