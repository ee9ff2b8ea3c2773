import { isIP } from 'node:net';

/** In lower case, decoded, and without the dot that may end it. Undefined if it is no name or address of a host. */
export function hostNameIn(host: string): string | undefined {
  if (!URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname.replace(/\.+$/, '');
}

/** An address with a name and perhaps a port, and nothing else. Monitors and runners call IP addresses and localhost. */
export function isArtifactOrigin(text: string): boolean {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return false;
  const { host, username, password, pathname, search, hash } = new URL(text);
  const name = hostNameIn(host) ?? '';
  if (username + password + search + hash !== '' || pathname !== '/') return false;
  return /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name) && isIP(name) === 0 && name !== 'localhost';
}

/** Why pages at the base address cannot show artifacts from there, or undefined. */
export function whyNoArtifactOrigin(url: string, baseUrl: string | undefined): string | undefined {
  if (baseUrl === undefined) return 'it needs base_url, which must have another host name';
  const [base, own] = [new URL(baseUrl), new URL(url)];
  if (hostNameIn(base.host) === hostNameIn(own.host))
    return 'its host name is that of base_url: artifacts need a host name of their own';
  if (base.protocol === 'https:' && own.protocol === 'http:')
    return 'it must begin with https://, as base_url does: browsers show no http:// page inside an https:// page';
  return undefined;
}
