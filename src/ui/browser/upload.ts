// Sends a file by script, to show a progress bar. Without scripts the browser sends the same form.

const form = document.querySelector<HTMLFormElement>('#upload');
const field = document.querySelector<HTMLInputElement>('#archive');

form?.addEventListener('submit', (event) => {
  if (!field?.files?.[0] || form.dataset['sent'] !== undefined) return;
  event.preventDefault();
  send();
});

function send(): void {
  if (!form || !field) return;
  const bar = document.querySelector<HTMLProgressElement>('#upload-progress progress');
  const told = document.querySelector<HTMLElement>('#upload-told');
  const area = document.getElementById('upload-progress');
  const mistake = document.getElementById('archive-mistake');
  if (!bar || !told || !area || !mistake) return;
  const say = (text: string): void => {
    told.textContent = text;
  };
  const fail = (text: string): void => {
    area.hidden = true;
    mistake.hidden = false;
    mistake.textContent = text;
    field.setAttribute('aria-invalid', 'true');
    field.setAttribute('aria-describedby', 'archive-hint archive-mistake');
    // As in `main.ts`: the form may be sent again.
    delete form.dataset['sent'];
    form.removeAttribute('aria-busy');
  };
  mistake.hidden = true;
  field.removeAttribute('aria-invalid');
  area.hidden = false;
  bar.value = 0;
  say('Starting…');
  const request = new XMLHttpRequest();
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    bar.value = loaded / total;
    say(loaded < total ? `${percentOf(loaded, total)} % of ${inMegabytes(total)} MB` : 'Sent. It is being stored…');
  });
  request.addEventListener('load', () => {
    // A successful upload redirects to the page, which is opened as if the browser had sent the form.
    if (request.status < 400) return location.assign(request.responseURL);
    const answer = new DOMParser().parseFromString(request.responseText, 'text/html');
    fail(
      answer.getElementById('archive-mistake')?.textContent.trim() ||
        'It was not taken. Load the page again and retry.',
    );
  });
  request.addEventListener('error', () => fail('The connection was lost before all of it was sent. Try again.'));
  request.open('POST', form.action);
  request.setRequestHeader('accept', 'text/html');
  request.send(new FormData(form));
}

function percentOf(part: number, whole: number): number {
  return Math.floor((100 * part) / whole);
}

function inMegabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
