import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { STOP_SIGNALS } from '../../lib/process/signals.ts';

/** The signals that the daemon receives, from its start to its end. */
export interface Control {
  /** Resolves with the exit code when the daemon must stop. */
  readonly stopped: Promise<ExitCode>;
  readonly stop: (exitCode: ExitCode) => void;
  /** Called on SIGHUP; does nothing until the loop exists or the program is on standby. */
  onHangUp: () => Promise<void>;
  /** Called on SIGUSR2. */
  onToggleLevel: () => void;
  /** Stops listening; SIGHUP and SIGUSR2 have no effect from then on. */
  readonly close: () => void;
}

function ignore(): void {}

/** Without a listener the signal would end the program, and its exit code would be lost while it stops. */
function ignoreFromNowOn(signal: NodeJS.Signals, listener: () => void): void {
  if (!process.listeners(signal).includes(ignore)) process.on(signal, ignore);
  process.off(signal, listener);
}

/** Listens to signals. @param onStopping receives the signal that stops the daemon */
export function listenToSignals(onStopping: (signal: NodeJS.Signals) => void): Control {
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
  const control: Control = {
    stopped,
    stop,
    onHangUp: () => Promise.resolve(),
    onToggleLevel: () => {},
    close: () => {
      for (const signal of STOP_SIGNALS) process.off(signal, onStop);
      ignoreFromNowOn('SIGHUP', onHangUp);
      ignoreFromNowOn('SIGUSR2', onToggleLevel);
    },
  };
  return control;
}
