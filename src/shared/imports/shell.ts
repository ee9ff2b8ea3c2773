/** Texts of shell scripts. Commands of builds run in `sh -e`, those of most other systems in bash. */

export function quote(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const ofBash =
  /\[\[|<<<|[<>]\(|\(\(|=\(|&>|\|&|\$'|\$\{[^}]{0,200}(?:\/|\^|,,|:\d|@\}|!)|\b(?:source|shopt|declare|typeset|local|pushd|popd|mapfile|readarray|function) |set -\w*o pipefail|\bset -[a-z]*E|\{[\w-]+(?:,[\w-]*)+\}|\{\d+\.\.\d+\}|\becho -[en]|\[ [^\]]{0,200}==|\$(?:RANDOM|BASH_|SECONDS|OSTYPE)|\bread -[a-z]*[aps]/;

/** `sh` runs the script as it is if it has nothing of bash. */
export function inBash(script: string, flags = '-e'): string {
  return flags === '-e' && !ofBash.test(script) ? script : `bash ${flags} -c ${quote(script)}`;
}

/** The text of a shell (`${NAME}`), so that it counts at that point. Undefined in a here-document without expansion. */
export function insertedIn(before: string, shell: string): string | undefined {
  if (/<<-?\s*\\?['"]/.test(before)) return undefined;
  return isQuoted(before) ? `'"${shell}"'` : shell;
}

/** Whether the text ends inside single quotes. */
function isQuoted(text: string): boolean {
  let open = '';
  for (let at = 0; at < text.length; at += 1) {
    const one = text[at] ?? '';
    if (one === '\\' && open !== "'") at += 1;
    else if (open === '' && (one === "'" || one === '"')) open = one;
    else if (open === '' && one === '#' && /^\s?$/.test(text.slice(Math.max(0, at - 1), at))) {
      const end = text.indexOf('\n', at);
      if (end < 0) return false;
      at = end;
    } else if (one === open) open = '';
  }
  return open === "'";
}

/** A build has no `sudo`: in an image its command is root, and `sudo` only has to run the rest. */
export const sudoStep = {
  name: 'sudo',
  command: `printf '%s\\n' '#!/bin/sh' 'while [ "\${1#-}" != "$1" ]; do shift; done' 'exec env "$@"' > /usr/local/bin/sudo
chmod +x /usr/local/bin/sudo`,
};

export const usesRoot = (script: string): boolean =>
  /\bsudo\b|\bapt(?:-get)? (?:-\S+ )*(?:install|update)\b/.test(script);

export const usesSudo = (script: string): boolean => /\bsudo\b/.test(script);

/** Tests a condition for one step: the rest does not run without it. */
export const only = (test: string, command: string): string => `if ! { ${test}; }; then exit 0; fi\n${command}`;
