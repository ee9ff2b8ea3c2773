/**
 * Prints the bill of materials of a release, as SPDX 2.3. Run by scripts/release.
 * bill-of-materials.ts COMMIT [FILE]: FILE lists Debian's packages in the image (name, version, architecture).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Locked {
  version: string;
  integrity?: string;
  license?: string;
  dev?: boolean;
}

const root = join(import.meta.dirname, '..');
const [commit = '', imagePackages] = process.argv.slice(2);
const { version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Locked;
const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, Locked>;
};

const idOf = (...parts: string[]): string => `SPDXRef-${parts.join('-').replaceAll(/[^A-Za-z0-9.]+/g, '-')}`;
const reference = (locator: string) => [
  { referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: locator },
];

const headrace = {
  SPDXID: idOf('headrace'),
  name: 'headrace',
  versionInfo: version,
  primaryPackagePurpose: 'APPLICATION',
  downloadLocation: 'NOASSERTION',
  filesAnalyzed: false,
  licenseConcluded: license,
  licenseDeclared: license,
  copyrightText: 'NOASSERTION',
};

/** The address is always the public registry's, even if another served the package. The lockfile has the digest. */
function npmPackage(name: string, { version: its, integrity = '', license: declared = 'NOASSERTION' }: Locked) {
  const [algorithm = '', digest = ''] = integrity.split('-');
  return {
    SPDXID: idOf('npm', name, its),
    name,
    versionInfo: its,
    downloadLocation: `https://registry.npmjs.org/${name}/-/${name.replace(/^.*\//, '')}-${its}.tgz`,
    filesAnalyzed: false,
    checksums: [{ algorithm: algorithm.toUpperCase(), checksumValue: Buffer.from(digest, 'base64').toString('hex') }],
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: declared,
    copyrightText: 'NOASSERTION',
    externalRefs: reference(`pkg:npm/${name.replace('@', '%40')}@${its}`),
  };
}

function debianPackage(line: string) {
  const [name = '', its = '', architecture = ''] = line.split(' ');
  return {
    SPDXID: idOf('debian', name, its, architecture),
    name,
    versionInfo: its,
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: 'NOASSERTION',
    copyrightText: 'NOASSERTION',
    externalRefs: reference(`pkg:deb/debian/${name}@${encodeURIComponent(its)}?arch=${architecture}`),
  };
}

const lockedPackages = Object.entries(lockfile.packages).filter(([place, { dev }]) => place !== '' && dev !== true);
const fromNpm = lockedPackages.map(([place, locked]) => npmPackage(place.replace(/^.*node_modules\//, ''), locked));
const npm = [...new Map(fromNpm.map((one) => [one.SPDXID, one])).values()];
const lines = imagePackages === undefined ? [] : readFileSync(imagePackages, 'utf8').trim().split('\n');
const debian = lines.filter((line) => !line.startsWith('headrace ')).map(debianPackage);
const image = {
  ...headrace,
  SPDXID: idOf('headrace-image'),
  name: 'headrace-image',
  primaryPackagePurpose: 'CONTAINER',
};

const relationship = (spdxElementId: string, relationshipType: string, relatedSpdxElement: string) => ({
  spdxElementId,
  relationshipType,
  relatedSpdxElement,
});
const document = {
  spdxVersion: 'SPDX-2.3',
  dataLicense: 'CC0-1.0',
  SPDXID: 'SPDXRef-DOCUMENT',
  name: `headrace-${version}`,
  documentNamespace: `https://spdx.org/spdxdocs/headrace-${version}-${commit}`,
  creationInfo: {
    created: new Date(Number(process.env.SOURCE_DATE_EPOCH) * 1000).toISOString().replace('.000', ''),
    creators: ['Organization: The Headrace authors', `Tool: headrace-release-${version}`],
  },
  documentDescribes: [headrace.SPDXID, ...(debian.length > 0 ? [image.SPDXID] : [])],
  packages: [headrace, ...npm, ...(debian.length > 0 ? [image, ...debian] : [])],
  relationships: [
    relationship('SPDXRef-DOCUMENT', 'DESCRIBES', headrace.SPDXID),
    // esbuild makes the program, but is not part of it.
    ...npm.map(({ SPDXID, name }) =>
      name.startsWith('@esbuild/')
        ? relationship(SPDXID, 'BUILD_TOOL_OF', headrace.SPDXID)
        : relationship(headrace.SPDXID, 'CONTAINS', SPDXID),
    ),
    ...(debian.length > 0 ? [relationship('SPDXRef-DOCUMENT', 'DESCRIBES', image.SPDXID)] : []),
    ...(debian.length > 0 ? [relationship(image.SPDXID, 'CONTAINS', headrace.SPDXID)] : []),
    ...debian.map(({ SPDXID }) => relationship(image.SPDXID, 'CONTAINS', SPDXID)),
  ],
};
console.log(JSON.stringify(document, undefined, 2));
