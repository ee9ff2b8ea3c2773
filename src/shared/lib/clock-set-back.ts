/** Whether the machine's clock was set back since the last call; true on the first call, because it cannot be known. */
export function watchForSetBack(): () => boolean {
  let ahead = Infinity;
  return () => {
    const before = ahead;
    ahead = Date.now() - performance.now();
    return ahead < before - 1000;
  };
}
