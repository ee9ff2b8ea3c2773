import { Idiomorph } from 'idiomorph';
import { onChanges, type Changes } from './changes.ts';
import { showTimes } from './times.ts';

/** After a change, the page is loaded again. Only elements with `data-live` are updated, so forms keep their input. */
export function keepFresh(): void {
  const live = document.querySelector<HTMLMetaElement>('meta[name=live]');
  if (!live) return;
  const about = new Set(live.content.split(' '));
  const freshen = oneAtATime(load);
  const { worker = '', changes: address = '' } = live.dataset;
  onChanges(
    { worker, changes: address },
    {
      change: (changes) => {
        if (concerns(about, changes)) freshen();
      },
      connected: freshen,
      // A load of the page shows whether the server is down or the user is signed out.
      lost: () => {
        announce(connectionLost);
        freshen();
      },
    },
  );
  const freshenIfSeen = (): void => {
    if (!document.hidden) freshen();
  };
  document.addEventListener('visibilitychange', freshenIfSeen);
  if (about.has('clock')) setInterval(freshenIfSeen, 5000);
}

const connectionLost = 'The connection is lost. Trying again…';

function concerns(about: ReadonlySet<string>, { projects, logs, builds, dependencies }: Changes): boolean {
  return (
    (about.has('projects') && projects.length > 0) ||
    (about.has('dependencies') && dependencies.length > 0) ||
    projects.some((id) => about.has(`project:${id}`)) ||
    logs.some((id) => about.has(`logs:${id}`)) ||
    builds.some((id) => about.has(`build:${id}`)) ||
    dependencies.some((id) => about.has(`dependency:${id}`))
  );
}

/** Visitors who are not signed in have a limit of requests. */
const isSignedIn = document.querySelector('.email') !== null;

const closed = isSignedIn
  ? 'You are signed out. Load the page again to sign in.'
  : 'This page is no longer public. Load it again to sign in.';

/** The pause between loads grows with the time of a load. It is longer in a hidden page. */
function oneAtATime(work: () => Promise<void>): () => void {
  let isWanted = false;
  let isWorking = false;
  const run = async (): Promise<void> => {
    isWorking = true;
    while (isWanted) {
      isWanted = false;
      const start = performance.now();
      await work();
      const rest = Math.max(500, 3 * (performance.now() - start), document.hidden || !isSignedIn ? 5000 : 0);
      await new Promise((resolve) => setTimeout(resolve, rest));
    }
    isWorking = false;
  };
  return () => {
    isWanted = true;
    if (!isWorking) void run();
  };
}

async function load(): Promise<void> {
  let response: Response;
  try {
    response = await fetch(location.href, { headers: { accept: 'text/html' }, cache: 'no-store' });
  } catch {
    return announce(connectionLost);
  }
  if (response.redirected) return announce(closed);
  if (response.status === 404) return announce('What this page shows is gone.');
  if (!response.ok) return announce('The server cannot answer now. Trying again…');
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  const log = logOf(document);
  if (log !== undefined && logOf(fresh) !== log) return location.reload();
  for (const part of document.querySelectorAll<HTMLElement>('[data-live][id]')) {
    const now = fresh.getElementById(part.id);
    if (now) void Idiomorph.morph(part, now, { callbacks: { beforeNodeMorphed, beforeAttributeUpdated } });
  }
  document.title = fresh.title;
  const icon = fresh.querySelector<HTMLLinkElement>('link[rel=icon]');
  const shown = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  if (icon && shown && icon.href !== shown.href) shown.href = icon.href;
  showTimes();
  document.dispatchEvent(new Event('freshened'));
  announce('');
}

function logOf(page: Document): string | undefined {
  return page.querySelector<HTMLElement>('[data-log]')?.dataset['log'];
}

function beforeNodeMorphed(element: Node): boolean {
  return element !== document.activeElement || !(element as Element).matches('input, select, textarea');
}

function beforeAttributeUpdated(name: string, element: Element, change: 'update' | 'remove'): boolean {
  return !(name === 'open' && change === 'remove' && element instanceof HTMLDetailsElement);
}

function announce(text: string): void {
  const place = document.getElementById('connection');
  if (place && place.textContent !== text) place.textContent = text;
}
