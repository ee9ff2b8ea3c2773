/** failures.ts reads ssh's messages in this locale. */
export function sshEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], HOME: process.env['HOME'], LC_ALL: 'C.UTF-8' };
}

export interface SshSettings {
  agentSocket: string;
  publicKeyFile: string;
  knownHosts: string;
  connectSeconds: number;
  operator: string;
  defaults: readonly string[];
}

/**
 * In ssh's files the first value wins, so only settings after the operator's part can be overridden there. It is a
 * file, because ssh passes `-F` on to jump hosts, but not `-o`. The operator's text is copied, because ssh is stricter
 * about the owner of an included file. SendEnv is set here, because a shared connection uses its master's settings.
 */
export function sshConfig(settings: SshSettings): string {
  return `BatchMode yes
IdentitiesOnly yes
IdentityAgent ${settings.agentSocket}
IdentityFile ${settings.publicKeyFile}
AddKeysToAgent no
PreferredAuthentications publickey
PubkeyAuthentication yes
ForwardAgent no
ForwardX11 no
ClearAllForwardings yes
Tunnel no
PermitLocalCommand no
RemoteCommand none
RequestTTY no
EscapeChar none
SendEnv GIT_PROTOCOL
ControlMaster no
ControlPath none

${settings.operator}

Host *
${settings.defaults.map((line) => `${line}\n`).join('')}StrictHostKeyChecking accept-new
UserKnownHostsFile ${settings.knownHosts}
UpdateHostKeys no
ConnectTimeout ${settings.connectSeconds}
ServerAliveInterval 15
ServerAliveCountMax 3
LogLevel INFO
`;
}
