import { MirrorError } from '../errors/errors.ts';

/** Signals that end the program (signal(7)); the terminal sends the first of them on Ctrl-C. */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/**
 * Does work with a signal that fires on the first of some signals; a second one ends the process immediately.
 * @param names SIGINT and SIGTERM by default
 * @param outcome the outcome of an interruption, as a clause: an error of the work then becomes `pass.abandoned`
 * @throws the errors of the work
 */
export async function untilStopped<T>(
  work: (signal: AbortSignal) => Promise<T>,
  {
    names = STOP_SIGNALS,
    outcome,
  }: { readonly names?: readonly NodeJS.Signals[]; readonly outcome?: string } = {},
): Promise<T> {
  const abort = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (abort.signal.aborted) process.exit(1);
    abort.abort(name);
  };
  for (const name of names) process.on(name, onSignal);
  try {
    return await work(abort.signal);
  } catch (error) {
    if (outcome === undefined || !abort.signal.aborted) throw error;
    throw new MirrorError('pass.abandoned', `Interrupted: ${outcome}.`, { cause: error });
  } finally {
    for (const name of names) process.off(name, onSignal);
  }
}
