/**
 * Loaded into the process of every test file. A file that never ends, because something stays open, would block the
 * whole run. It is ended here, and the open resources are printed.
 */
const minutes = 12;

setTimeout(() => {
  const kept = process.getActiveResourcesInfo().join(', ');
  process.stderr.write(`${process.argv[1] ?? ''} has not ended after ${minutes} minutes; still open: ${kept}\n`);
  process.exit(1);
}, minutes * 60_000).unref();
