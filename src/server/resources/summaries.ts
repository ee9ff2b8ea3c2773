import { projectRoute } from '../api/route.ts';
import { readSummary } from '../outputs/summaries.ts';
import { showSummary } from '../outputs/show-summary.ts';
import { summaryPageRecord } from '../../shared/records/build.ts';
import { string } from '../../shared/records/schema.ts';
import { findMaker } from './builds.ts';

const path = '/projects/:project_id/builds/:build_id/summary';

export const routes = [
  projectRoute({
    method: 'GET',
    path,
    access: 'public',
    scope: 'commits',
    summary: 'Read the summary that a build wrote, as Markdown; empty if it wrote none',
    streams: ['text/markdown'],
    answer: string,
    async handle({ db, project, params }) {
      const id = await findMaker({ db, project, params });
      const written = Buffer.from(await readSummary(db, id));
      return {
        contentType: 'text/markdown; charset=utf-8',
        headers: { 'content-length': String(written.length), 'cache-control': 'private, no-cache' },
        body: whole(written),
      };
    },
  }),
  projectRoute({
    method: 'GET',
    path: `${path}/view`,
    access: 'public',
    scope: 'commits',
    summary: 'Fetch the summary of a build as sanitized HTML for a page; null if it cannot be shown as such',
    answer: summaryPageRecord,
    async handle({ db, database, project, params, caller }) {
      const build = await findMaker({ db, project, params });
      const markdown = await readSummary(db, build);
      if (markdown === '') return { html: '' };
      const kept = db.selectFrom('artifacts').select(['id', 'path']).where('build_id', '=', build);
      const at = `/ui/data/projects/${project.id}/builds/${build}/artifacts`;
      const artifacts = new Map((await kept.execute()).map((one) => [one.path, `${at}/${one.id}`]));
      return { html: await showSummary(database, { build, account: caller.id, markdown, artifacts }) };
    },
  }),
];

async function* whole(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
