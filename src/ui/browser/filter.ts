// Shows the projects whose name has what is typed in the field `Filter`, while it is typed. What the page was loaded
// with stays: without scripts the server does the same.

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
  // A page that was loaded with a filter has only what fits: to see the rest, it is loaded again without one.
  const loadedWith = new URL(location.href).searchParams.get('filter')?.trim().toLowerCase() ?? '';
  field.addEventListener('input', () => {
    if (field.value.trim().toLowerCase().includes(loadedWith)) apply();
    else field.form?.requestSubmit();
  });
  document.addEventListener('freshened', apply);
  apply();
}
