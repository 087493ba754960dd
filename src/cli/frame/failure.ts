import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { sourceLines } from '../../lib/errors/source-lines.ts';
import { oneLine } from '../../lib/text/humanize.ts';
import { joinLines } from '../../lib/text/terminal-text.ts';
import { printJson, tell } from './output.ts';
import { watchStops } from '../../lib/process/signals.ts';
import { forgetOutput, hasOutput } from '../../lib/process/streams.ts';

/**
 * Reports the error of a command line: to a person on standard error and, with `--json`, to a program on standard output, which
 * always gets exactly one JSON document.
 */
export function tellFailure(error: MirrorError, argv: readonly string[]): void {
  tellError(error);
  printFailure(error, argv);
}

/** Completes the output of a failed command that was asked for JSON and printed nothing. */
export function completeOutput(argv: readonly string[], exitCode: number, stoppedBy?: NodeJS.Signals): void {
  if (exitCode === EXIT_CODES.ok) return;
  const error =
    stoppedBy === undefined
      ? new MirrorError('internal.defect', 'The command ended without a result.')
      : new MirrorError('pass.abandoned', `The command was interrupted by ${stoppedBy}.`);
  printFailure(error, argv);
}

/**
 * Completes the output of a command line even if a signal, or a call that ends the process, cuts it off.
 * @returns a function that ends this
 */
export function watchEnding(argv: readonly string[]): () => void {
  forgetOutput();
  if (!asksForJson(argv)) return () => {};
  let stoppedBy: NodeJS.Signals | undefined;
  const unwatch = watchStops((signal, isLast) => {
    stoppedBy = signal;
    if (isLast) completeOutput(argv, EXIT_CODES.incomplete, signal);
  });
  const onExit = (exitCode: number): void => completeOutput(argv, exitCode, stoppedBy);
  process.on('exit', onExit);
  return () => {
    unwatch();
    process.off('exit', onExit);
  };
}

/** Whether a command line asks for JSON, even if it is invalid. Arguments after `--` are for another program. */
function asksForJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(2, end === -1 ? undefined : end).includes('--json');
}

function printFailure({ code, message, hint }: MirrorError, argv: readonly string[]): void {
  if (asksForJson(argv) && !hasOutput()) printJson({ error: { code, message, hint: hint ?? null } });
}

/** Reports an error to a person, with what to do about it. */
export function tellError(error: MirrorError): void {
  const { code, cause, hint } = error;
  const isDefect = code === 'internal.defect';
  const [first = '', ...more] = isDefect ? error.lines.map(oneLine) : error.lines;
  tell(
    joinLines([
      `workbook-mirror: ${first}`,
      ...more,
      ...(hint === undefined ? [] : [`  ${hint}`]),
      ...(isDefect && cause instanceof Error ? stackOf(cause) : []),
    ]),
    'error',
  );
}

/** The stack of an error, a call a line. The message, which may come from outside, is kept on one line. */
function stackOf({ stack = '', message }: Error): string[] {
  const at = stack.indexOf(message);
  const end = at === -1 ? -1 : stack.indexOf('\n', at + message.length);
  if (end === -1) return [oneLine(stack)];
  return [oneLine(stack.slice(0, end)), ...sourceLines(stack.slice(end + 1)).split('\n')];
}
