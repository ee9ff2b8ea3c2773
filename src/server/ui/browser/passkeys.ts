/** Forms that need a passkey. The server put the options into the form, and gets the browser's answer back as JSON. */

for (const form of document.querySelectorAll<HTMLFormElement>('form[data-passkey]')) {
  const { passkey: kind, options = '' } = form.dataset;
  const failure = form.querySelector<HTMLElement>('[data-failure]');
  const answer = form.elements.namedItem('answer');
  if (!failure || !(answer instanceof HTMLInputElement)) continue;
  const fail = (text: string): void => {
    failure.textContent = text;
    failure.hidden = false;
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    event.stopPropagation(); // a form may be tried again, unlike others (main.ts)
    failure.hidden = true;
    void send();
  });
  const send = async (): Promise<void> => {
    try {
      answer.value = await ask(kind, options);
      form.submit();
    } catch (error) {
      fail(reasonOf(error));
    }
  };
}

async function ask(kind: string | undefined, options: string): Promise<string> {
  const given = JSON.parse(options) as never;
  const publicKey =
    kind === 'create'
      ? PublicKeyCredential.parseCreationOptionsFromJSON(given)
      : PublicKeyCredential.parseRequestOptionsFromJSON(given);
  const credential =
    kind === 'create'
      ? await navigator.credentials.create({ publicKey: publicKey as PublicKeyCredentialCreationOptions })
      : await navigator.credentials.get({ publicKey });
  return JSON.stringify(credential);
}

function reasonOf(error: unknown): string {
  if (!('PublicKeyCredential' in globalThis)) return 'This browser has no passkeys, or this site has no HTTPS.';
  if (error instanceof DOMException && error.name === 'InvalidStateError')
    return 'This device already has a passkey of this account.';
  if (error instanceof DOMException && error.name === 'NotAllowedError')
    return 'No passkey was used. Try again, and follow what your browser asks.';
  return 'The browser could not use a passkey here. Try another one.';
}
