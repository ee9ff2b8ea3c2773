import { addressOf } from './assets.ts';
import { html } from './html.ts';
import { orMissing } from './parts.ts';
import { projectPage } from './project-pages.ts';
import type { PageRoute } from './site.ts';

/** Only the frame of the shell. `browser/shell.ts` does the rest. */
export const routes: PageRoute[] = projectPage({
  path: '/builds/:build_id/shell',
  tab: 'commits',
  async show({ api, projectPath, formKey }) {
    const build = await api.get('/projects/:project_id/builds/:build_id');
    orMissing(build.files_kept_until);
    const at = `${projectPath}/builds/${build.id_str}`;
    return {
      title: 'Shell',
      live: [],
      isFilled: true,
      hasTerminal: true,
      main: html`<div class="title">
          <h1>
            Shell <span class="aside">in the files of <a href="${at}">build ${build.id_str}</a></span>
          </h1>
        </div>
        <p class="aside">What you change here is gone with the shell. It ends when you leave this page.</p>
        <p id="shell-told" role="status">
          <button id="shell-open" class="main" data-script="${addressOf('shell.js')}" hidden>Open the shell</button>
        </p>
        <div
          id="shell"
          class="log log-live"
          data-key="${formKey}"
          data-at="${at.replace('/ui/', '/ui/data/')}/shell"
        ></div>
        <noscript
          ><p>A shell needs scripts. In a terminal: <code>headrace shell ${build.id_str}</code></p></noscript
        >`,
    };
  },
});
