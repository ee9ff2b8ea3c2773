import { agoInWords, durationInWords } from './time-words.ts';

/** Keeps "3 minutes ago" and durations true while a page is open. The words are those of `ui/moments.ts`. */
export function keepTimes(): void {
  setInterval(showTimes, 1000);
  document.addEventListener('visibilitychange', showTimes);
  showTimes();
}

export function showTimes(): void {
  if (document.hidden) return;
  for (const time of document.querySelectorAll<HTMLTimeElement>('time[data-ago]')) {
    show(time, agoInWords(Date.now() - Date.parse(time.dateTime)));
    // The exact moment in the reader's own time zone.
    if (time.dataset['ago'] === '') {
      time.title = exact.format(new Date(time.dateTime));
      time.dataset['ago'] = 'local';
    }
  }
  for (const span of document.querySelectorAll<HTMLElement>('[data-since]')) {
    show(span, durationInWords(Math.max(0, Date.now() - Date.parse(span.dataset['since'] ?? ''))));
  }
}

const exact = new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'long' });

function show(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
