import { developerProgram } from './catalog.ts';
import { complaintOf } from './errors.ts';

export async function main(argv: readonly string[]): Promise<void> {
  const { stdout, stderr } = process;
  // The reader of a pipe has read enough, which is not an error.
  stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 3));
  try {
    await developerProgram().perform(argv);
  } catch (error) {
    const { status, text } = complaintOf(error, argv.includes('--verbose') || argv.includes('-v'));
    stderr.write(`${text}\n`);
    process.exitCode = status;
  }
}
