/** The most addresses that are listed. */
const mostListed = 10;

/** The text in a log about addresses that a build could not reach; blank where there were none. */
export function refusedText(refused: readonly string[] = []): string {
  if (refused.length === 0) return '';
  const lines = refused.slice(0, mostListed).map((one) => `  ${one}`);
  if (refused.length > mostListed) lines.push('  and others');
  return `
Builds may not reach these addresses, and this one was refused them:
${lines.join('\n')}
The operator of this runner can allow private ranges with HEADRACE_BUILD_ALLOW, but not the machine itself, loopback or link-local addresses.
`;
}
