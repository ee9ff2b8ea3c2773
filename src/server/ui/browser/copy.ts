/** Copying needs scripts, so the buttons are hidden without them. */
export function copyOnDemand(): void {
  document.documentElement.classList.add('scripted');
  document.addEventListener('click', (event) => {
    const button = (event.target as Element).closest<HTMLElement>('[data-copy]');
    const source = button && document.getElementById(button.dataset['copy'] ?? '');
    if (source) void copy(source, button);
  });
}

async function copy(source: HTMLElement, button: HTMLElement): Promise<void> {
  const label = button.dataset['label'] ?? button.textContent;
  button.dataset['label'] = label;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = 'Copied';
  } catch {
    // Without HTTPS, browsers refuse to copy. Then the text is selected, so the user can copy it.
    getSelection()?.selectAllChildren(source);
    button.textContent = 'Selected';
  }
  setTimeout(() => (button.textContent = label), 2000);
}
