import type { Command } from 'commander';

import { EXIT_CODES } from '../../lib/errors/errors.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { renderReport } from '../../probe/report.ts';
import { bold, loudness, type Outcome, tell } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';

/** `probe` */
export async function runProbe(command: Command): Promise<Outcome> {
  const { withWrongKey, maxRequests }: { withWrongKey?: true; maxRequests: number } = command.opts();
  if (loudness() !== 'quiet') tell(say`Reading only, at most ${maxRequests} requests, one after the other.`);
  const report = await runOnce(command, 'probe', { withWrongKey: withWrongKey === true, maxRequests });
  return {
    data: report,
    text: () => {
      const lines = renderReport(report, (text) => bold(text, standardOutput));
      return say`Probe of a service by ${report.program}\n\n${lines}`;
    },
    exitCode: report.stopped === null ? EXIT_CODES.ok : EXIT_CODES.incomplete,
  };
}
