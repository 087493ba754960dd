import type { Command } from 'commander';

import { standardOutput } from '../../lib/process/streams.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { renderReport } from '../../probe/report.ts';
import { bold, judged, loudness, type Outcome, tell } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';

/** `probe` */
export async function runProbe(command: Command): Promise<Outcome> {
  const { withWrongKey, maxRequests }: { withWrongKey?: true; maxRequests: number } = command.opts();
  if (loudness() !== 'quiet') tell(say`Reading only, at most ${maxRequests} requests, one after the other.`);
  const report = await runOnce(command, 'probe', { withWrongKey: withWrongKey === true, maxRequests });
  return judged(report.stopped === null, report, () => {
    const lines = renderReport(report, (text) => bold(text, standardOutput));
    return say`Probe of a service by ${report.program}\n\n${lines}`;
  });
}
