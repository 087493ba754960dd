/** Tells whether the work in hand makes progress: whoever does some of it beats. */
export interface Pulse {
  readonly beat: () => void;
  /** Work begins; until it ends, silence counts. Gives what says that it ended. */
  readonly begin: () => () => void;
  /** Whether any work that was begun has not ended. */
  readonly isWorking: () => boolean;
  /** How long nothing beat while work is going on, in milliseconds; 0 while none is. */
  readonly silentMs: () => number;
}

/** Makes a pulse. @param now a monotonic clock, in milliseconds */
export function createPulse(now: () => number = () => performance.now()): Pulse {
  let lastBeatMs = now();
  let working = 0;
  const beat = (): void => {
    lastBeatMs = now();
  };
  return {
    beat,
    begin: () => {
      beat();
      working += 1;
      return () => {
        working -= 1;
      };
    },
    isWorking: () => working > 0,
    silentMs: () => (working > 0 ? now() - lastBeatMs : 0),
  };
}
