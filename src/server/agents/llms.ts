import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { PlainRoutes } from '../http/plain-routes.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';
import { ApiError } from '../../shared/errors.ts';
import { mcpPath } from '../oauth/parameters.ts';
import { tools } from './tools.ts';

const headers = { 'content-type': 'text/markdown; charset=utf-8', 'cache-control': 'public, max-age=300' };

/** `/llms.txt`: what this server is, for programs that read. And the documentation of this version, to which it links. */
export function llmsText(origin: () => string): PlainRoutes<void> {
  const folder = sourceFile('..', 'docs');
  let known: Map<string, string> | undefined;
  const pages = (): Map<string, string> => (known ??= titlesIn(folder));
  return {
    provenBy: 'none',
    admit: async () => {},
    routes: [
      {
        method: 'GET',
        path: '/llms.txt',
        handle: async () => ({ headers, content: Buffer.from(textFor(origin(), pages())) }),
      },
      {
        method: 'GET',
        path: '/docs/:page',
        async handle({ head }) {
          const { page = '' } = head.params as { page?: string };
          if (!pages().has(page)) throw new ApiError('not_found');
          return { headers, content: await readFile(`${folder}/${page}`) };
        },
      },
    ],
  };
}

function titlesIn(folder: string): Map<string, string> {
  const names = readdirSync(folder).filter((name) => /^[\w-]+\.md$/.test(name));
  return new Map(names.map((name) => [name, /^# (.+)$/m.exec(readFileSync(`${folder}/${name}`, 'utf8'))?.[1] ?? name]));
}

function textFor(origin: string, pages: ReadonlyMap<string, string>): string {
  const links = Array.from(pages, ([name, title]) => `- [${title}](${origin}/docs/${name})`);
  return `# Headrace

> A self-hosted continuous-integration service: it builds and tests the commits of repositories.

- [${mcpPath}](${origin}${mcpPath}): tools for agents by the Model Context Protocol: ${Object.keys(tools).join(', ')}
- [/openapi.json](${origin}/openapi.json): the REST API
- [Agents](${origin}/docs/agents.md): how to connect

## Documentation

${links.join('\n')}
`;
}
