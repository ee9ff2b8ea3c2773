/** Whether the machine's clock went back since the last call; the first time nobody knows, so it may have. */
export function watchForSetBack(): () => boolean {
  let ahead = Infinity;
  return () => {
    const before = ahead;
    ahead = Date.now() - performance.now();
    return ahead < before - 1000;
  };
}
