import { agoText, timeSpanText } from './time-words.ts';

/** Uses the same words as `ui/moments.ts`. */
export function keepTimes(): void {
  setInterval(showTimes, 1000);
  document.addEventListener('visibilitychange', showTimes);
  document.addEventListener('pointerover', showExact, { passive: true });
  showTimes();
}

export function showTimes(): void {
  if (document.hidden) return;
  for (const time of document.querySelectorAll<HTMLTimeElement>('time[data-ago]')) {
    show(time, agoText(Date.now() - Date.parse(time.dateTime)));
  }
  for (const span of document.querySelectorAll<HTMLElement>('[data-since]')) {
    show(span, timeSpanText(Math.max(0, Date.now() - Date.parse(span.dataset['since'] ?? ''))));
  }
}

/** On hover, the title gets the time in the user's time zone. Converting all times at load would keep a phone busy. */
function showExact({ target }: Event): void {
  const time = target instanceof Element ? target.closest<HTMLTimeElement>('time[data-ago=""]') : null;
  if (!time) return;
  time.title = new Date(time.dateTime).toLocaleString('en', { dateStyle: 'full', timeStyle: 'long' });
  time.dataset['ago'] = 'local';
}

function show(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
