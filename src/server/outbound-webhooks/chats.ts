import type { Options, ReceiverType } from '../../shared/records/notification.ts';
import { escapeXml } from '../../shared/lib/xml.ts';
import type { HttpCall } from './http-call.ts';
import type { Message } from './message.ts';

export type Chat = Exclude<ReceiverType, 'webhook' | 'email'>;

/** A line of a chat message. `code` may be a stranger's text, and is shown as it is. */
type Part = string | { code: string } | { link: string; label: string };

/** What strangers wrote is code in each chat's form: without mentions, links or styles. */
export function chatCall(chat: Chat, message: Message | 'ping', options: Options, delivery: bigint): HttpCall {
  const lines = message === 'ping' ? [['Headrace sends news of builds here.']] : linesOf(message);
  const { url = '', token = '' } = options;
  if (chat === 'matrix') return matrixCall(lines, options, delivery);
  const body = JSON.stringify(bodies[chat](lines));
  return { url, body, headers: {}, secrets: [url, token].filter((secret) => secret !== '') };
}

function linesOf(message: Message): Part[][] {
  const { headline, project, place, sha, subject, author, sentence, address, failed } = message;
  return [
    [`${headline}: `, { code: project }, ' ', { code: place }, ' ', { link: address, label: 'Open' }],
    ...(sha === '' ? [] : [['Commit ', { code: `${sha.slice(0, 8)} ${subject}` }, ' by ', { code: author }]]),
    [`${sentence}.`],
    ...failed.map((suite): Part[] => [{ code: suite.name }, ' ', { link: suite.address, label: 'Log' }]),
  ];
}

const withoutTicks = (text: string): string => text.replaceAll('`', "'");

const inMarkdown = (lines: readonly Part[][]): string =>
  lines.map((parts) => parts.map(markdownOf).join('')).join('\n');

function markdownOf(part: Part): string {
  if (typeof part === 'string') return part;
  return 'code' in part ? `\`${withoutTicks(part.code)}\`` : `[${part.label}](${part.link})`;
}

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function slackOf(part: Part): string {
  if (typeof part === 'string') return part;
  return 'code' in part ? `\`${escaped(withoutTicks(part.code))}\`` : `<${part.link}|${part.label}>`;
}

const plainOf = (part: Part): string => {
  if (typeof part === 'string') return part;
  return 'code' in part ? part.code : part.link;
};

function htmlOf(part: Part): string {
  if (typeof part === 'string') return escapeXml(part);
  return 'code' in part
    ? `<code>${escapeXml(part.code)}</code>`
    : `<a href="${escapeXml(part.link)}">${part.label}</a>`;
}

/** Discord refuses longer messages. */
const longestOfDiscord = 2000;

const bodies: Record<Exclude<Chat, 'matrix'>, (lines: Part[][]) => object> = {
  slack: (lines) => ({ text: lines.map((parts) => parts.map(slackOf).join('')).join('\n'), unfurl_links: false }),
  mattermost: (lines) => ({ text: inMarkdown(lines) }),
  discord: (lines) => ({
    content: inMarkdown(lines).slice(0, longestOfDiscord).toWellFormed(),
    allowed_mentions: { parse: [] },
  }),
  teams: (lines) => ({
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          // Runs of text have no Markdown.
          body: lines.map((parts) => ({
            type: 'RichTextBlock',
            inlines: parts.filter((part) => !isLink(part)).map(runOf),
          })),
          actions: lines
            .flat()
            .filter(isLink)
            .slice(0, 1)
            .map(({ link, label }) => ({ type: 'Action.OpenUrl', title: label, url: link })),
        },
      },
    ],
  }),
};

function isLink(part: Part): part is { link: string; label: string } {
  return typeof part !== 'string' && 'link' in part;
}

const runOf = (part: Part): object => ({
  type: 'TextRun',
  text: plainOf(part),
  ...(typeof part !== 'string' && { fontType: 'Monospace' }),
});

/** The delivery names the transaction, so a call that is made again writes nothing twice. */
function matrixCall(lines: Part[][], { homeserver = '', room = '', token = '' }: Options, delivery: bigint): HttpCall {
  const path = `/_matrix/client/v3/rooms/${encodeURIComponent(room)}/send/m.room.message/${delivery}`;
  const body = {
    msgtype: 'm.notice',
    body: lines.map((parts) => parts.map(plainOf).join('')).join('\n'),
    format: 'org.matrix.custom.html',
    formatted_body: lines.map((parts) => parts.map(htmlOf).join('')).join('<br>'),
    'm.mentions': {},
  };
  return {
    method: 'PUT',
    url: homeserver.replace(/\/+$/, '') + path,
    body: JSON.stringify(body),
    headers: { authorization: `Bearer ${token}` },
    secrets: [token],
  };
}
