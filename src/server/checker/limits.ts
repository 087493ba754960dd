/** What a check may take. */
export interface CheckLimits {
  /** How long a file may take to be opened, in milliseconds. */
  readonly limitMs: number;
  /** How much it may take beside the bytes that it is unpacked to, in megabytes of the JavaScript heap. */
  readonly heapMegabytes: number;
  /** How long a process that opens files is kept without work, in milliseconds: starting one takes a fifth of a second. */
  readonly idleMs: number;
}

/** The limits of the service. */
export const CHECK_LIMITS: CheckLimits = { limitMs: 30_000, heapMegabytes: 1024, idleMs: 60_000 };
