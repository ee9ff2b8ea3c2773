import { messageOf } from '../../shared/lib/error-code.ts';
import { ForbiddenAddressError, allowedAddresses, type AddressRules } from '../../shared/lib/address-filter.ts';
import { run } from '../../shared/lib/processes.ts';
import { FetchError } from './failures.ts';
import { notPublic } from './public-failures.ts';
import { sshEnvironment } from './ssh-config.ts';
import { MasterError } from './ssh-master.ts';

/**
 * Makes ssh connect to the checked address of a named host, so that no second lookup can give another one. The check
 * follows the operator's configuration: an alias there gives repositories no access to private hosts. Jump hosts and
 * proxies get the checked address too. Host keys are still remembered by name.
 */
export async function checkedHost(
  config: string,
  destination: readonly string[],
  rules: AddressRules,
  signal: AbortSignal,
  hear: (chunk: Buffer) => Promise<void>,
): Promise<string[]> {
  const { status, stdout, stderr } = await run('ssh', ['-G', '-F', config, ...destination], {
    env: sshEnvironment(),
    signal,
  });
  if (status !== 0) {
    await hear(stderr);
    throw new MasterError(stderr.toString());
  }
  const settings = stdout.toString();
  const valueOf = (name: string): string => new RegExp(`^${name} (.*)$`, 'm').exec(settings)?.[1] ?? '';
  const [host, port] = [valueOf('hostname'), valueOf('port')];
  const known = valueOf('hostkeyalias') || (port === '22' ? host : `[${host}]:${port}`);
  try {
    const [first] = await allowedAddresses(host, rules, signal);
    return ['-o', `HostName=${first?.address}`, '-o', `HostKeyAlias=${known}`];
  } catch (error) {
    if (error instanceof ForbiddenAddressError) throw new FetchError('not_public', notPublic);
    throw new MasterError(messageOf(error));
  }
}
