import { EXIT_CODES } from '../model/errors.ts';

/**
 * Takes it in order when nobody reads the output any longer, as `| head -1` does: what runs on and on is told to stop, the
 * rest ends. Output that cannot be written for another reason, such as a full disk, is an error that a person is told of.
 */
export function endWithOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') {
      process.stderr.write(`workbook-mirror: cannot write to standard output: ${error.message}\n`);
      process.exit(EXIT_CODES.incomplete);
    }
    if (process.listenerCount('SIGTERM') === 0) process.exit(EXIT_CODES.ok);
    process.kill(process.pid, 'SIGTERM');
  });
  process.stderr.on('error', () => {});
}
