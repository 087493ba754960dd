import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';

import { MirrorError } from '../errors/errors.ts';
import { roughDuration } from '../text/humanize.ts';
import { drained, type ProgramStart, startProgram } from './run.ts';

/** A program to run to its end. */
export interface CommandRequest extends Pick<ProgramStart, 'environment' | 'input'> {
  /** The program and its arguments; no shell reads them. */
  readonly words: readonly string[];
  readonly cwd: string;
  /** The longest time that it may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Stops it immediately. */
  readonly signal: AbortSignal;
  /** Gets the pieces of its standard output, which is thrown away where this is left out. */
  readonly onOutput?: (piece: Buffer) => void;
}

/** Characters of its last line that are reported. */
const LINE_CHARACTERS = 500;

/**
 * Runs a program to its end, in its own process group, so that its children end with it when it is stopped.
 * @returns `lastLine` is the last line that it wrote to standard error, bounded, null for none; `said` is the end of all of it
 * @throws MirrorError `hook.failed` if it cannot be started, takes too long, or is ended by a signal; `pass.abandoned` if
 *   `signal` stopped it
 */
export async function runCommand(request: CommandRequest) {
  const { words, cwd, environment, input, timeoutMs, signal, onOutput } = request;
  const [program = '', ...args] = words;
  const path = await findProgram(program, environment['PATH'] ?? '');
  const startedAtMs = performance.now();
  const limit = AbortSignal.timeout(timeoutMs);
  const running = startProgram({
    program: path,
    args,
    cwd,
    environment,
    input,
    isOutputIgnored: onOutput === undefined,
    signal: AbortSignal.any([signal, limit]),
  });
  running.stdout.on('data', onOutput ?? (() => {})).on('error', () => {});
  const { exitCode, endedBy, said, startError } = await running.ended;
  await drained(running.stdout);
  running.stdout.destroy();
  const lastLine = lastLineOf(said);
  if (startError !== null) {
    throw new MirrorError('hook.failed', `It cannot be started: ${startError.message}.`, {
      cause: startError,
      hint: 'Check the program, the interpreter that its first line names, and the permissions.',
    });
  }
  if (signal.aborted)
    throw new MirrorError('pass.abandoned', 'The command was stopped, as the program is to end.');
  if (limit.aborted)
    throw failure(`It did not end within ${roughDuration(timeoutMs)} and was stopped`, lastLine);
  if (exitCode === null) throw failure(`It was ended by ${endedBy ?? 'a signal'}`, lastLine);
  return { exitCode, lastLine, said, durationMs: performance.now() - startedAtMs };
}

function lastLineOf(said: string): string | null {
  const line = said.split('\n').at(-1)?.trim() ?? '';
  return line === '' ? null : line.slice(0, LINE_CHARACTERS);
}

function failure(what: string, lastLine: string | null): MirrorError {
  return new MirrorError('hook.failed', withLine(what, lastLine), {
    hint: 'Run it by hand to see what it prints.',
  });
}

/** A sentence about a program's end with the last line that it wrote. */
export function withLine(sentence: string, lastLine: string | null): string {
  return lastLine === null ? `${sentence}.` : `${sentence}: ${lastLine}`;
}

/**
 * The absolute path of a program. Relative folders of the search path are skipped: commands run in folders of the
 * mirror, where they would lead to files from the service.
 * @param program a path, or a name to look for
 * @param searchPath as in the variable PATH
 * @throws MirrorError `hook.failed`
 */
export async function findProgram(program: string, searchPath: string): Promise<string> {
  const places = program.includes('/')
    ? [program]
    : searchPath.split(delimiter).map((folder) => join(folder, program));
  for (const place of places) {
    if (isAbsolute(place) && (await isProgram(place))) return place;
  }
  throw new MirrorError('hook.failed', `${JSON.stringify(program)} is not found or not executable.`, {
    hint: program.includes('/')
      ? 'Check that the file is there, and that the user of this process may execute it.'
      : `It is looked for in ${searchPath}; give its whole path if it is elsewhere.`,
  });
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
