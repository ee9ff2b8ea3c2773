import { hostname } from 'node:os';
import { createTransport } from 'nodemailer';
import { mostLinksToAddress } from '../../shared/domain/bounds.ts';
import { createTlsTrust, type TlsTrust } from '../../shared/lib/tls-trust.ts';
import { escapeXml } from '../../shared/lib/xml.ts';

export interface Letter {
  to: string;
  subject: string;
  text: string;
  html: string;
  headers?: Record<string, string>;
}

export interface MailResult {
  /** The code of the server's last answer. null without one. */
  status: number | null;
  answer: string;
  error: string;
}

export interface Mailer {
  /** Every behaviour of the server is a result, not an exception. */
  send(letter: Letter, signal: AbortSignal): Promise<MailResult>;
  /** False if this server has sent this address enough links today. Any user can invite any address. */
  maySendLink(to: string): boolean;
}

const day = 24 * 60 * 60 * 1000;
const mostAddresses = 50_000;

/** At most so many links to one address in a day. */
export function createLinkRate(most = mostLinksToAddress, now = Date.now): (to: string) => boolean {
  const sent = new Map<string, { since: number; links: number }>();
  return (to) => {
    const at = now();
    if (sent.size >= mostAddresses) for (const [one, { since }] of sent) if (at - since >= day) sent.delete(one);
    const known = sent.get(to);
    const found = known && at - known.since < day ? known : { since: at, links: 0 };
    if (found.links >= most || (!known && sent.size >= mostAddresses)) return false;
    found.links += 1;
    sent.set(to, found);
    return true;
  };
}

export interface MailServer {
  /** `smtp://` or `smtps://`, with credentials if the server wants some. */
  url: string;
  from: string;
  trust: TlsTrust;
  /** In milliseconds, for one letter. */
  answerWithin: number;
}

/** The operator's settings of these names. */
type MailSettings = Record<'smtp_url' | 'smtp_from' | 'base_url' | 'trust_file', string | undefined>;

/** Undefined if the operator has set no mail server. */
export function configuredMailer({ smtp_url: url, smtp_from, base_url, trust_file }: MailSettings): Mailer | undefined {
  if (url === undefined) return undefined;
  const from = smtp_from ?? `headrace@${base_url === undefined ? hostname() : new URL(base_url).hostname}`;
  return createMailer({ url, from, trust: createTlsTrust(trust_file), answerWithin: 10_000 });
}

/** Each letter has its own connection: letters are few, and a server may close one that is idle. */
export function createMailer({ url, from, trust, answerWithin }: MailServer): Mailer {
  const { protocol, hostname: host, port, username, password } = new URL(url);
  const isSecure = protocol === 'smtps:';
  const hasCredentials = username !== '';
  return {
    maySendLink: createLinkRate(),
    async send(letter, signal) {
      const transport = createTransport({
        host: host.replace(/^\[|\]$/g, ''),
        ...(port !== '' && { port: Number(port) }),
        secure: isSecure,
        // Without credentials, STARTTLS is used if the server offers it.
        requireTLS: hasCredentials && !isSecure,
        ...(hasCredentials && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
        tls: { secureContext: trust.context(), rejectUnauthorized: true },
        connectionTimeout: answerWithin,
        greetingTimeout: answerWithin,
        socketTimeout: answerWithin,
        dnsTimeout: answerWithin,
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      const ending = Promise.withResolvers<never>();
      const late = (): void =>
        ending.reject(signal.reason ?? new Error(`no answer within ${answerWithin / 1000} seconds`));
      const timer = setTimeout(late, answerWithin);
      signal.addEventListener('abort', late, { once: true });
      try {
        const { response } = await Promise.race([transport.sendMail({ from, ...letter }), ending.promise]);
        return { status: Number(/^\d{3}/.exec(response)?.[0] ?? 250), answer: response, error: '' };
      } catch (error) {
        return failure(error);
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', late);
        transport.close();
      }
    },
  };
}

function failure(error: unknown): MailResult {
  const {
    responseCode,
    response = '',
    message = 'it could not be sent',
  } = error as {
    responseCode?: number;
    response?: string;
    message?: string;
  };
  return { status: responseCode ?? null, answer: response, error: responseCode === undefined ? message : '' };
}

/** Whether the mail server took it. The link is for its recipient alone. */
export async function mailLink(
  mailer: Mailer | undefined,
  { to, link, subject, text }: { to: string; link: string; subject: string; text: string },
): Promise<boolean> {
  if (!mailer?.maySendLink(to)) return false;
  const html = `<p>${escapeXml(text)}</p><p><a href="${escapeXml(link)}">${escapeXml(link)}</a></p>`;
  const letter = { to, subject, text: `${text}\n\n${link}`, html };
  return (await mailer.send(letter, new AbortController().signal)).status === 250;
}
