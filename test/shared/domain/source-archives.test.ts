import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/shared/lib/processes.ts';

describe('the kind of an archive', () => {
  it('is found in little memory, also of a start that unpacks to gigabytes [promise: archive-unpacking]', async () => {
    const lib = fileURLToPath(new URL('../../../src/shared/domain/source-archives.ts', import.meta.url));
    // Four bytes for each 128 KiB.
    const program = `
      const { archiveKind, headSize } = await import(${JSON.stringify(lib)});
      const block = Buffer.from([0x02, 0x00, 0x10, 0x00]);
      const head = Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38]), Buffer.alloc(headSize - 6, block)]);
      console.log(await archiveKind(head), process.resourceUsage().maxRSS);`;
    const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', program]);
    const [kind, kilobytes] = stdout.toString().trim().split(' ');
    assert.equal(kind, 'undefined', stderr.toString());
    assert.ok(Number(kilobytes) < 512 * 1024, `${kilobytes} kB`);
  });
});
