import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** What a terminal showed: a recording in the words of asciicast v2 (https://docs.asciinema.org/manual/asciicast/v2/). */
export interface Recording {
  readonly columns: number;
  readonly rows: number;
  readonly command: string;
  readonly events: readonly Output[];
}

/** What a program wrote at once, and when, from the beginning of the recording. */
export interface Output {
  readonly atMs: number;
  readonly text: string;
}

/** How a program is run in a picture: in a home of its own, with nothing of this machine's settings. */
export interface Surroundings {
  /** The working directory. */
  readonly folder: string;
  /** An empty folder. */
  readonly home: string;
}

/** The variables of a program in a picture. */
export function variables({ home }: Surroundings): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    TMPDIR: '/tmp',
    TERM: 'xterm-256color',
    LC_ALL: 'C.UTF-8',
    TZ: 'UTC',
    // Neither belongs to the program: a bar while npm works, and news of npm.
    npm_config_progress: 'false',
    npm_config_update_notifier: 'false',
  };
}

/**
 * Runs a command on a terminal of its own, and records what it shows, below the command as somebody types it.
 * @throws Error when the command fails
 */
export async function record(
  command: string,
  { columns, rows }: { readonly columns: number; readonly rows: number },
  surroundings: Surroundings,
): Promise<Recording> {
  const typed = { atMs: 0, text: `$ ${command}\r\n` };
  const events: Output[] = [typed];
  const startedAtMs = performance.now();
  const child = spawn(
    'script',
    ['--quiet', '--return', '--command', `stty columns ${columns} rows ${rows}; ${command}`, '/dev/null'],
    { cwd: surroundings.folder, env: variables(surroundings), stdio: ['pipe', 'pipe', 'inherit'] },
  );
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    events.push({ atMs: Math.round(performance.now() - startedAtMs), text });
  });
  const [exitCode] = (await once(child, 'close')) as [number | null];
  if (exitCode !== 0)
    throw new Error(`${command} ended with ${exitCode}:\n${events.map(({ text }) => text).join('')}`);
  return { columns, rows, command, events };
}

/** A recording as players of terminals read it. */
export function toCast({ columns, rows, command, events }: Recording): string {
  const header = { version: 2, width: columns, height: rows, command, env: { TERM: 'xterm-256color' } };
  const lines = [header, ...events.map(({ atMs, text }) => [atMs / 1000, 'o', text])];
  return `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`;
}

/** Reads what {@link toCast} wrote. */
export function fromCast(cast: string): Recording {
  const [header = '', ...lines] = cast.trimEnd().split('\n');
  const { width, height, command } = JSON.parse(header) as { width: number; height: number; command: string };
  const events = lines.map((line) => {
    const [atSeconds, , text] = JSON.parse(line) as [number, string, string];
    return { atMs: Math.round(atSeconds * 1000), text };
  });
  return { columns: width, rows: height, command, events };
}
