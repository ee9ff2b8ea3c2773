/**
 * Loaded into the process of every file of tests. One that never ends, because something that it opened stays open,
 * would hold the whole run for ever: it ends here, and says what kept it.
 */
const minutes = 12;

setTimeout(() => {
  const kept = process.getActiveResourcesInfo().join(', ');
  process.stderr.write(`${process.argv[1] ?? ''} has not ended after ${minutes} minutes; still open: ${kept}\n`);
  process.exit(1);
}, minutes * 60_000).unref();
