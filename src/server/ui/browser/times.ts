import { relativeTexts, timeSpanText } from './time-words.ts';

const relative = 'time[data-ago]';

/** Uses the same words as `ui/moments.ts`. */
export function keepTimes(): void {
  setInterval(showTimes, 1000);
  document.addEventListener('visibilitychange', showTimes);
  document.addEventListener('pointerover', ({ target }) => showTitle(timeIn(target)), { passive: true });
  document.addEventListener('click', ({ target }) => press(timeIn(target)));
  showTimes();
}

export function showTimes(): void {
  if (document.hidden) return;
  for (const time of document.querySelectorAll<HTMLTimeElement>(`${relative}:not([data-exact])`)) {
    const textOf = relativeTexts[time.dataset['ago'] as keyof typeof relativeTexts];
    show(time, textOf(Date.now() - Date.parse(time.dateTime)));
  }
  for (const span of document.querySelectorAll<HTMLElement>('[data-since]')) {
    show(span, timeSpanText(Math.max(0, Date.now() - Date.parse(span.dataset['since'] ?? ''))));
  }
}

function timeIn(target: EventTarget | null): HTMLTimeElement | null {
  return target instanceof Element ? target.closest<HTMLTimeElement>(relative) : null;
}

/** In the user's time zone. Converting all times at load would keep a phone busy. */
function showTitle(time: HTMLTimeElement | null): void {
  if (!time) return;
  time.title = new Date(time.dateTime).toLocaleString('en', { dateStyle: 'full', timeStyle: 'long' });
}

/** A touch screen has no hover, so a press shows the exact time, and another one the relative time. */
function press(time: HTMLTimeElement | null): void {
  if (!time || time.closest('a, button, summary, label')) return;
  showTitle(time);
  if ('exact' in time.dataset) delete time.dataset['exact'];
  else time.dataset['exact'] = '';
  if ('exact' in time.dataset) time.textContent = time.title;
  else showTimes();
}

function show(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
