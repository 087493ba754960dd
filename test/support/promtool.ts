import { spawnSync } from 'node:child_process';

const PROMTOOL = 'promtool';

/** Whether Prometheus' own checks cannot be had here. */
export const isPromtoolMissing = spawnSync(PROMTOOL, ['--version']).error !== undefined;

/** What one of Prometheus' own checks says. */
interface Verdict {
  readonly isPassed: boolean;
  /** Line by line. */
  readonly complaints: readonly string[];
  readonly output: string;
}

/** Has Prometheus check something. @param input standard input */
export function promtool(args: readonly string[], input = ''): Verdict {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { input, encoding: 'utf8' });
  const complaints = stderr.split('\n').filter((line) => line !== '');
  return { isPassed: status === 0, complaints, output: stdout };
}
