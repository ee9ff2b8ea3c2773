import { createHash } from 'node:crypto';
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { done, project } from './support.ts';

const sources = `apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian'`;

/** The files of a small Debian with these packages, as a tar file, made once from where this machine has its own. */
export async function debianWith(packages: string): Promise<string> {
  const release = (await done('sh', '-c', '. /etc/os-release; echo $VERSION_CODENAME')).trim();
  const name = createHash('sha256').update(`${release} ${packages}`).digest('hex').slice(0, 16);
  const file = join(project, `node_modules/.cache/debian-${name}.tar`);
  if (!existsSync(file)) {
    const fresh = `${file}.${process.pid}.tar`;
    const make = `mmdebstrap --quiet --mode=root --variant=minbase --include=${packages} ${release} ${fresh} -`;
    await done('sh', '-c', `${sources} | sort -u | ${make}`);
    renameSync(fresh, file);
  }
  return file;
}
