import { X509Certificate } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import type { Config } from '../../../shared/config.ts';
import { messageOf } from '../../../shared/lib/error-code.ts';
import { ok, warning, type Check } from './check.ts';

const cost = 'reports of builds cannot be shown';

export async function artifactOrigin({ artifact_url: url, tls, tls_cert: cert }: Config): Promise<Check> {
  const check = 'artifact address';
  if (url === undefined) return ok(check, 'none: reports are shown without scripts (HEADRACE_ARTIFACT_URL)');
  const { hostname, origin } = new URL(url);
  try {
    // The server's own certificate gets the name at the next start.
    if (tls === 'on' && cert !== undefined && new X509Certificate(readFileSync(cert)).checkHost(hostname) === undefined)
      return warning(
        check,
        `the certificate is not for ${hostname}`,
        cost,
        `use a certificate that also names ${hostname}`,
      );
    await lookup(hostname);
    return ok(check, origin);
  } catch (error) {
    return warning(check, `${origin}: ${messageOf(error)}`, cost, `let the name ${hostname} lead to this server`);
  }
}
