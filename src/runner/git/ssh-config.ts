export interface SshSettings {
  agentSocket: string;
  publicKeyFile: string;
  knownHosts: string;
  connectSeconds: number;
  /** The operator's own configuration, as text. */
  operator: string;
  /** Additional lines, which the operator's configuration can override. */
  defaults: readonly string[];
}

/**
 * The configuration of one connection. In ssh's files the first value wins: settings before the operator's part cannot
 * be changed there, settings after it are defaults. It is one file and not a list of `-o`, because ssh passes `-F` on
 * to its connections to jump hosts, but not `-o`. The operator's text is copied in and not included, because ssh is
 * stricter about the owner of an included file. SendEnv is set here although git passes it to every ssh, because a
 * shared connection uses the settings of its master.
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
