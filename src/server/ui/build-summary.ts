import { html, Html } from './html.ts';
import type { ProjectVisit } from './project-pages.ts';

/** What the build wrote for its page. The route has sanitized it. */
export async function summaryPart({ api }: ProjectVisit, hasSummary: boolean, address: string): Promise<Html> {
  if (!hasSummary) return html`<section id="summary" data-live></section>`;
  const { html: shown } = await api.get('/projects/:project_id/builds/:build_id/summary/view');
  return html`<section id="summary" aria-label="Summary" tabindex="0" data-live>
    <h2>Summary <a class="aside" href="/ui/data${address}/summary" download="summary.md">Markdown</a></h2>
    ${shown === null ? html`<p class="aside">It is too large or takes too long to be shown here.</p>` : new Html(shown)}
  </section>`;
}
