const mostListed = 10;

/** Text for a build's log. Empty if no address was refused. */
export function refusedText(refused: readonly string[] = []): string {
  if (refused.length === 0) return '';
  const lines = refused.slice(0, mostListed).map((one) => `  ${one}`);
  if (refused.length > mostListed) lines.push('  and others');
  return `
The sandbox blocked connections of this build to these addresses:
${lines.join('\n')}
The operator of this runner can allow private ranges with HEADRACE_BUILD_ALLOW, except the machine itself, loopback and link-local addresses.
`;
}
