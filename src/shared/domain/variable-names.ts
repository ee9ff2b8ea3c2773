/** Names of environment variables that a shell can use. */
export const variableNameForm = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Whether the service sets the variable itself. */
export function isReservedVariable(name: string): boolean {
  return name === 'CI' || name.startsWith('HEADRACE');
}
