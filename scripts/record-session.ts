/** Makes the recorded session in the documentation, an animated picture. Run by `scripts/record-session`. */
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { Developer } from '../test/support/developer.ts';
import { startInstallation } from '../test/support/installation.ts';

const columns = 76;
const rows = 19;
const [cell, line, margin] = [8.4, 18, 14];
/** In seconds: to type a letter, to read the output of a command, and to show the last frame. */
const [perLetter, reading, last] = [0.05, 1.6, 5];

interface Frame {
  /** Seconds since the beginning. */
  at: number;
  text: string;
}

const unit = `
for name in 'reads the gauge' 'keeps what it has read' 'averages over the hour'; do echo "ok $name"; sleep 0.7; done
echo 'expected 412, got 411.83' | tee report.txt
exit 1`;

const cleanUps: (() => unknown)[] = [];
const place = {
  kind: 'sqlite' as const,
  emptyUrl: () => Promise.reject(new Error('SQLite is in its folder')),
  afterwards: (cleanUp: () => unknown) => void cleanUps.push(cleanUp),
};
const frames: Frame[] = [];
let said = '';
let now = 0;

function show(text: string, seconds: number): void {
  frames.push({ at: now, text });
  now += seconds;
}

/** Types a command and shows its output in real time. Pauses without new output are cut to about a second. */
async function perform(developer: Developer, args: string[], input?: string): Promise<string> {
  const script = input === undefined ? '' : `echo '${input}' | `;
  const typed = `$ ${script}headrace ${args.join(' ')}`;
  for (let length = 2; length <= typed.length; length += 1) show(said + typed.slice(0, length), perLetter);
  const before = `${said}${typed}\n`;
  let text = '';
  if (input === undefined) {
    const terminal = developer.sit(args, { columns, rows: 24 });
    const ended = terminal.end();
    for (let isOver = false; !isOver;) {
      isOver = await Promise.race([ended.then(() => true), new Promise<false>((go) => setTimeout(go, 100, false))]);
      if (terminal.text !== text) show(before + terminal.text, 0.1);
      else now += frames.length > 0 && now - (frames.at(-1)?.at ?? 0) < 1 ? 0.1 : 0;
      text = terminal.text;
    }
  } else {
    text = (await developer.run(args, input)).out.trimEnd();
  }
  show(before + text, reading);
  said = `${before}${text}\n`;
  return text;
}

const colours: [RegExp, string][] = [
  [/✓.*/u, '#4ac26b'],
  [/✗.*/u, '#ff7b72'],
  [/●.*/u, '#d29922'],
  [/^\$ .*/u, '#ffffff'],
  [/^──.*/u, '#8b98a5'],
];

function drawn(text: string, top: number): string {
  const lines = text.split('\n').slice(-rows);
  return lines
    .map((content, row) => {
      const colour = colours.find(([sign]) => sign.test(content))?.[1];
      const y = top + margin + (row + 1) * line - 4;
      const shown = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').trimEnd();
      return shown === '' ? '' : `<text x="${margin}" y="${y}"${colour ? ` fill="${colour}"` : ''}>${shown}</text>`;
    })
    .join('');
}

/** All frames form one vertical strip, which moves behind a window. */
function picture(): string {
  const kept = frames.filter(({ text }, at) => text !== frames[at - 1]?.text);
  const [width, height] = [columns * cell + 2 * margin, rows * line + 2 * margin];
  const total = now + last;
  const steps = kept.map(
    ({ at }, index) => `${((at / total) * 100).toFixed(2)}%{transform:translateY(-${index * height}px)}`,
  );
  const strip = kept.map(({ text }, index) => drawn(text, index * height)).join('\n');
  const style = `@keyframes play{${steps.join('')}}.strip{animation:play ${total.toFixed(1)}s step-end infinite}text{white-space:pre}@media(prefers-reduced-motion:reduce){.strip{animation:none;transform:translateY(-${(kept.length - 1) * height}px)}}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="A session with the command line" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14" fill="#c9d4de">
<style>${style}</style>
<rect width="${width}" height="${height}" rx="8" fill="#101820"/>
<svg width="${width}" height="${height}"><g class="strip">
${strip}
</g></svg>
</svg>
`;
}

try {
  const installation = await startInstallation(place);
  const project = await installation.project('river-gauge');
  await installation.api().post(`${project.path}/suites`, { name: 'unit tests', command: unit });
  const lint = "sleep 0.5; echo '48 files, nothing wrong'";
  await installation.api().post(`${project.path}/suites`, { name: 'lint', command: lint });
  await project.repository.commit({ message: 'Average over the hour' });
  const developer = await Developer.at(installation, installation.admin.email);
  developer.clone(installation.host.url('river-gauge.git'));
  const run = await perform(developer, ['run', '--follow']);
  const [, build = ''] = /headrace shell (\d+)/.exec(run) ?? [];
  if (build === '') throw new Error(`nothing failed:\n${run}`);
  await perform(developer, ['shell', build], 'cat report.txt; pwd');
  await perform(developer, ['status']);
  const file = join(import.meta.dirname, '..', 'docs', 'images', 'session.svg');
  writeFileSync(file, picture());
  console.log(file);
} finally {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
}
