import { createHash } from 'node:crypto';
import { openRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import { text } from '../../shared/records/fields.ts';
import type { StreamAnswer } from '../http/route.ts';
import { escapeXml } from '../../shared/lib/xml.ts';
import { string } from '../../shared/records/schema.ts';
import { orNotFound } from './common.ts';

/** Badges are public if the owner allows it. A badge contains no names. */

interface Style {
  word: string;
  colour: string;
}

/** White text has a contrast of at least 4.5 to 1 on each of these colours. */
const styles: Record<string, Style> = {
  passed: { word: 'passed', colour: '#1a7f37' },
  failed: { word: 'failed', colour: '#cf222e' },
  errored: { word: 'errored', colour: '#9a6700' },
  cancelled: { word: 'cancelled', colour: '#59636e' },
  skipped: { word: 'skipped', colour: '#59636e' },
  building: { word: 'building', colour: '#0969da' },
  waiting_for_builds: { word: 'waiting', colour: '#0969da' },
};
const unknown: Style = { word: 'unknown', colour: '#59636e' };

const label = 'build';
const height = 20;
const padding = 6;

/** The approximate width in most fonts. `textLength` makes the letters fit in all fonts. */
const widthOf = (word: string): number => Math.ceil(word.length * 6.6);

function drawn({ word, colour }: Style): string {
  const [left, right] = [widthOf(label) + 2 * padding, widthOf(word) + 2 * padding];
  const name = escapeXml(`${label}: ${word}`);
  const written = (what: string, from: number): string =>
    `<text x="${from + padding}" y="14" textLength="${widthOf(what)}" lengthAdjust="spacingAndGlyphs">${escapeXml(what)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="${height}" role="img" aria-label="${name}">`,
    `<title>${name}</title>`,
    `<clipPath id="r"><rect width="${left + right}" height="${height}" rx="3"/></clipPath>`,
    `<g clip-path="url(#r)"><rect width="${left}" height="${height}" fill="#24292f"/>`,
    `<rect x="${left}" width="${right}" height="${height}" fill="${colour}"/></g>`,
    `<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">${written(label, 0)}${written(word, left)}</g>`,
    '</svg>\n',
  ].join('');
}

/** The state of the branch's commit at its last build, or else of the newest commit built for it. */
async function stateOfBranch(db: Queries, project: Pick<ProjectRow, 'id'>, branch: string): Promise<string> {
  const built = await db
    .selectFrom('built_refs')
    .innerJoin('commits', 'commits.id', 'built_refs.commit_id')
    .select('commits.build_state')
    .where('built_refs.project_id', '=', project.id)
    .where('built_refs.name', '=', `refs/heads/${branch}`)
    .executeTakeFirst();
  if (built) return built.build_state;
  const commits = db.selectFrom('commits').select('build_state').where('project_id', '=', project.id);
  const newest = await commits.where('branch', '=', branch).orderBy('id', 'desc').limit(1).executeTakeFirst();
  return newest?.build_state ?? '';
}

/** Caches must revalidate. Otherwise the image proxies of forges would keep showing the old badge. */
function answerWith(picture: string, sentTags: string): StreamAnswer {
  const tag = `"${createHash('sha256').update(picture).digest('base64url').slice(0, 22)}"`;
  const isCurrent = sentTags.split(',').some((one) => [tag, `W/${tag}`, '*'].includes(one.trim()));
  const headers = {
    etag: tag,
    'cache-control': 'no-cache, max-age=0, must-revalidate',
    'content-security-policy': "default-src 'none'",
    'cross-origin-resource-policy': 'cross-origin',
  };
  const contentType = 'image/svg+xml; charset=utf-8';
  return isCurrent
    ? { contentType, status: 304, headers, body: once('') }
    : {
        contentType,
        headers: { ...headers, 'content-length': String(Buffer.byteLength(picture)) },
        body: once(picture),
      };
}

async function* once(text: string): AsyncGenerator<string> {
  if (text !== '') yield text;
}

export const routes = [
  openRoute({
    method: 'GET',
    path: '/projects/:project_id/badge.svg',
    access: 'none',
    scope: 'none',
    summary:
      'An image with the state of a project, or of one of its branches; only if its field public_badge or public is true',
    query: { branch: text('ref', { description: 'A branch; without it, the image is for the project' }) },
    streams: ['image/svg+xml'],
    hasTag: true,
    answer: string,
    async handle({ db, params, query, headers, publicProjects }) {
      const projects = db.selectFrom('projects').select(['id', 'build_state']).where('id', '=', params.project_id);
      // A project without a public badge gets the same response as a missing project.
      const isShown = projects.where((of) => {
        const badge = of('public_badge', '=', 1);
        return publicProjects ? of.or([badge, of('public', '=', 1)]) : badge;
      });
      const project = orNotFound(await isShown.executeTakeFirst());
      const state = query.branch === '' ? project.build_state : await stateOfBranch(db, project, query.branch);
      return answerWith(drawn(styles[state] ?? unknown), String(headers['if-none-match'] ?? ''));
    },
  }),
];
