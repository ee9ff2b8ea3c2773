/**
 * Shows the records whose name contains the text in the field `Filter`, while the user types. Without scripts the server
 * filters in the same way; so it does where not all records are on the page.
 */
export function filterHere(): void {
  const field = document.querySelector<HTMLInputElement>('input[data-filter]');
  if (!field) return;
  const wanted = (): string => field.value.trim().toLowerCase();
  const apply = (): void => {
    let shown = 0;
    for (const item of document.querySelectorAll<HTMLElement>('[data-name]')) {
      item.hidden = !(item.dataset['name'] ?? '').includes(wanted());
      if (!item.hidden) shown += 1;
    }
    const none = document.getElementById('none-fit');
    if (none) none.hidden = shown > 0;
  };
  // A page that was loaded with a filter has only the matching records. To show the rest, it is loaded again without
  // one.
  const loadedWith = new URL(location.href).searchParams.get('filter')?.trim().toLowerCase() ?? '';
  field.addEventListener('input', () => {
    if (wanted().includes(loadedWith)) apply();
    else field.form?.requestSubmit();
  });
  document.addEventListener('freshened', apply);
  apply();
}
