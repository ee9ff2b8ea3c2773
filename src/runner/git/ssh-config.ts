export interface SshSettings {
  agentSocket: string;
  publicKeyFile: string;
  knownHosts: string;
  connectSeconds: number;
  /** The operator's own configuration, as text. */
  operator: string;
  /** More lines that hold unless the operator says otherwise. */
  defaults: readonly string[];
}

/**
 * The configuration of one connection. In ssh's files the first value wins: what stands before the operator's
 * part cannot be changed there, what stands behind it is a default. It is one file, and not a row of `-o`,
 * because ssh hands `-F` on to the connections it makes to jump hosts, and `-o` not; and the operator's
 * text is laid in, not included, because ssh is stricter about who owns an included file. SendEnv stands here
 * although git gives it to every ssh, because a shared connection goes by what its master was told.
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
StrictHostKeyChecking accept-new
UserKnownHostsFile ${settings.knownHosts}
UpdateHostKeys no
ConnectTimeout ${settings.connectSeconds}
ServerAliveInterval 15
ServerAliveCountMax 3
LogLevel INFO
${settings.defaults.map((line) => `${line}\n`).join('')}`;
}
