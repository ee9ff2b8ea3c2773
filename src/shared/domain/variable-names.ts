export const variableNameForm = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Headrace sets these itself. */
export function isReservedVariable(name: string): boolean {
  return name === 'CI' || name.startsWith('HEADRACE');
}
