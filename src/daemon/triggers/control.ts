import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { STOP_SIGNALS } from '../../lib/process/signals.ts';

/** The signals that the daemon receives, from its start to its end. */
export type Control = ReturnType<typeof listenToSignals>;

function ignore(): void {}

/** Without a listener the signal would end the program, and its exit code would be lost while it stops. */
function ignoreFromNowOn(signal: NodeJS.Signals, listener: () => void): void {
  if (!process.listeners(signal).includes(ignore)) process.on(signal, ignore);
  process.off(signal, listener);
}

/** Listens to signals. @param onStopping receives the signal that stops the daemon */
export function listenToSignals(onStopping: (signal: NodeJS.Signals) => void) {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<ExitCode>();
  const onStop = (signal: NodeJS.Signals): void => {
    onStopping(signal);
    stop(EXIT_CODES.ok);
  };
  const onHangUp = (): void => void control.onHangUp();
  const onToggleLevel = (): void => control.onToggleLevel();
  for (const signal of STOP_SIGNALS) process.on(signal, onStop);
  process.on('SIGHUP', onHangUp);
  process.on('SIGUSR2', onToggleLevel);
  const control = {
    /** Resolves with the exit code when the daemon must stop. */
    stopped,
    stop,
    /** Called on SIGHUP; does nothing until the loop exists or the program is on standby. */
    onHangUp: (): Promise<void> => Promise.resolve(),
    /** Called on SIGUSR2. */
    onToggleLevel: (): void => {},
    /** Stops listening; SIGHUP and SIGUSR2 have no effect from then on. */
    close: (): void => {
      for (const signal of STOP_SIGNALS) process.off(signal, onStop);
      ignoreFromNowOn('SIGHUP', onHangUp);
      ignoreFromNowOn('SIGUSR2', onToggleLevel);
    },
  };
  return control;
}
