/** Signals that end the program (signal(7)); the terminal sends the first of them on Ctrl-C. */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** An abort signal that fires on the first SIGINT or SIGTERM; a second one ends the process at once. */
export function abortOnSignal(): { readonly signal: AbortSignal; readonly stopListening: () => void } {
  const abort = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (abort.signal.aborted) process.exit(1);
    abort.abort(name);
  };
  for (const name of STOP_SIGNALS) process.on(name, onSignal);
  return {
    signal: abort.signal,
    stopListening: () => {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
    },
  };
}
