import type { Annotation } from '../../shared/records/build.ts';
import { html, type Html } from './html.ts';
import { counted } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

const looks: Record<Annotation['level'], string> = { error: 'bad', warning: 'warn', notice: 'none' };

/** Failed tests have their own list. */
export async function annotationsPart({ api }: ProjectVisit, log: string): Promise<Html> {
  const all = await api.get('/projects/:project_id/builds/:build_id/annotations');
  const shown = all.filter(({ log_line: line, file }) => line !== null || file === null);
  if (shown.length === 0) return html`<section id="annotations" data-live></section>`;
  const notes = shown.filter(({ file }) => file !== null).length;
  return html`<section id="annotations" aria-label="Annotations" tabindex="0" data-live>
    <h2>${counted(notes, 'annotation')}</h2>
    <ul>
      ${shown.map((one) => html`<li>${item(one, log)}</li>`)}
    </ul>
  </section>`;
}

function item({ level, file, line, end_line: end, title, message, log_line: at }: Annotation, log: string): Html {
  if (file === null) return html`${message}`;
  const range = `${line}${end !== null && end !== line ? `–${end}` : ''}`;
  return html`<span class="count ${looks[level]}">${level}</span>
    <a href="${log}?from=${at ?? 1}#L${at ?? 1}"><code>${file}:${range}</code></a>
    ${title !== null && html`<strong>${title}</strong>`} <span>${firstLine(message)}</span>`;
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0]?.slice(0, 300) ?? '';
}
