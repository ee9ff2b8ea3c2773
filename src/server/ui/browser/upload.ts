// With scripts, an upload shows its progress and resumes after interruptions. Without scripts, the browser sends the
// form.

const form = document.querySelector<HTMLFormElement>('#upload');
const field = document.querySelector<HTMLInputElement>('#archive');
const bar = document.querySelector<HTMLProgressElement>('#upload-progress progress');
const statusLine = document.getElementById('upload-told');
const area = document.getElementById('upload-progress');
const mistake = document.getElementById('archive-mistake');

/** Allowed interruptions in a row without progress. */
const mostBreaks = 5;

const notTaken = 'It was not taken. Load the page again and retry.';

form?.addEventListener('submit', (event) => {
  const file = field?.files?.[0];
  if (!file || form.dataset['sent'] !== undefined) return;
  event.preventDefault();
  if (!field || !bar || !statusLine || !area || !mistake) return;
  mistake.hidden = true;
  field.removeAttribute('aria-invalid');
  area.hidden = false;
  bar.value = 0;
  show('Starting…');
  upload(file).then(
    () => location.assign(form.dataset['done'] ?? ''),
    (error: unknown) => {
      area.hidden = true;
      mistake.hidden = false;
      mistake.textContent = error instanceof Refusal ? error.message : notTaken;
      field.setAttribute('aria-invalid', 'true');
      field.setAttribute('aria-describedby', 'archive-hint archive-mistake');
      // The form may be sent again, as in `main.ts`.
      delete form.dataset['sent'];
      form.removeAttribute('aria-busy');
    },
  );
});

/** An error that a retry would not fix. */
class Refusal extends Error {}

async function upload(file: File): Promise<void> {
  const uploads = form?.dataset['uploads'] ?? '';
  const begun = await fetch(uploads, {
    method: 'POST',
    headers: { 'x-form-key': formKey(), 'content-type': 'application/x-www-form-urlencoded' },
    body: `size=${file.size}`,
  }).catch(() => undefined);
  if (!begun) throw new Refusal('The connection is lost. Try again.');
  if (!begun.ok) throw refusalOf(await begun.text());
  const address = `${uploads}/${((await begun.json()) as { response: { id_str: string } }).response.id_str}`;
  let arrived = 0;
  for (let breaks = 0; ;) {
    const found = await fetch(address).catch(() => undefined);
    if (found?.ok) {
      const { offset, complete } = ((await found.json()) as { response: { offset: number; complete: boolean } })
        .response;
      if (complete) return;
      if (offset > arrived) breaks = 0;
      arrived = offset;
      if (await sendRest(address, file, offset)) return;
    } else if (found && found.status < 500) throw refusalOf(await found.text());
    breaks += 1;
    const far = `${inMegabytes(arrived)} of ${inMegabytes(file.size)} MB`;
    if (breaks >= mostBreaks)
      throw new Refusal(`The connection broke ${mostBreaks} times after ${far} had arrived. Try again.`);
    show('The connection broke. Going on…');
    await new Promise((resolve) => setTimeout(resolve, 1000 * 2 ** (breaks - 1)));
  }
}

/** True if the whole file arrived. XMLHttpRequest is used because it reports progress. */
async function sendRest(address: string, file: File, offset: number): Promise<boolean> {
  const request = new XMLHttpRequest();
  request.upload.addEventListener('progress', ({ loaded }) => {
    const sent = offset + loaded;
    if (bar) bar.value = sent / file.size;
    const percent = Math.floor((100 * sent) / file.size);
    show(sent < file.size ? `${percent} % of ${inMegabytes(file.size)} MB` : 'Sent. It is being stored…');
  });
  request.open('PATCH', address);
  request.setRequestHeader('x-form-key', formKey());
  request.setRequestHeader('content-type', 'application/partial-upload');
  request.setRequestHeader('upload-offset', String(offset));
  await new Promise((resolve) => {
    request.addEventListener('loadend', resolve);
    request.send(file.slice(offset));
  });
  const { status } = request;
  if (status >= 400 && status < 500 && status !== 409) throw refusalOf(request.responseText);
  return status === 200;
}

function refusalOf(answer: string): Refusal {
  const { empty, wrong, later } = mistake?.dataset ?? {};
  if (field?.files?.[0]?.size === 0) return new Refusal(empty);
  if (answer.includes('"size"')) return new Refusal('This file is larger than this server takes.');
  if (answer.includes('invalid_format')) return new Refusal(wrong);
  return new Refusal(answer.includes('resource_temporary_unavailable') ? later : notTaken);
}

function formKey(): string {
  return form?.dataset['key'] ?? '';
}

function show(text: string): void {
  if (statusLine) statusLine.textContent = text;
}

function inMegabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
