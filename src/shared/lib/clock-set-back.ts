/** Reports if the clock was set back since the last call. True on the first call, which cannot know. */
export function watchForSetBack(): () => boolean {
  let ahead = Infinity;
  return () => {
    const before = ahead;
    ahead = Date.now() - performance.now();
    return ahead < before - 1000;
  };
}
