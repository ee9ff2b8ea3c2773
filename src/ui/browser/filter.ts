// Shows the projects whose name contains the text in the field `Filter`, while the user types. Without scripts the
// server filters in the same way.

const field = document.querySelector<HTMLInputElement>('#filter');

function apply(): void {
  const wanted = field?.value.trim().toLowerCase() ?? '';
  let shown = 0;
  for (const item of document.querySelectorAll<HTMLElement>('[data-name]')) {
    item.hidden = !(item.dataset['name'] ?? '').includes(wanted);
    if (!item.hidden) shown += 1;
  }
  const none = document.getElementById('none-fit');
  if (none) none.hidden = shown > 0;
}

if (field) {
  // A page that was loaded with a filter has only the matching projects. To show the rest, it is loaded again without
  // one.
  const loadedWith = new URL(location.href).searchParams.get('filter')?.trim().toLowerCase() ?? '';
  field.addEventListener('input', () => {
    if (field.value.trim().toLowerCase().includes(loadedWith)) apply();
    else field.form?.requestSubmit();
  });
  document.addEventListener('freshened', apply);
  apply();
}
