/** More are not told. */
const mostTold = 10;

/** What a log says of addresses that a build could not reach; blank where there were none. */
export function refusedWords(refused: readonly string[] = []): string {
  if (refused.length === 0) return '';
  const lines = refused.slice(0, mostTold).map((one) => `  ${one}`);
  if (refused.length > mostTold) lines.push('  and others');
  return `
Builds may not reach these addresses, and this one was refused them:
${lines.join('\n')}
The operator of this runner can allow private ranges with HEADRACE_BUILD_ALLOW, but not the machine itself, loopback or link-local addresses.
`;
}
