import type { Generation } from '../lib/api/requests.ts';
import type { MirrorError } from '../lib/errors/errors.ts';

/** A request of the probe: it only reads. */
export interface ProbeRequest {
  readonly generation: Generation;
  readonly method: 'GET' | 'HEAD';
  /** Path and query below the base address, or a whole address of the same origin. */
  readonly target: string | URL;
  readonly headers: Readonly<Record<string, string>>;
  /** `own` sends the configured one. */
  readonly credential: 'own' | 'made-up' | 'none';
  /** So many bytes of the body are read, after decoding; then it is broken off. */
  readonly maxBytes: number;
}

/** An answer, or what came of it. */
export interface ProbeAnswer {
  /** HTTP status code; 0 where there was no whole answer. */
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Without its content coding. */
  readonly body: Buffer;
  /** False where the body was broken off. */
  readonly isWhole: boolean;
  /** From sending to the first byte of the answer, in milliseconds. */
  readonly waitMs: number;
  /** Why there was no whole answer; null where there was one. */
  readonly failure: MirrorError | null;
  /** When it began to come, by this machine's clock, in milliseconds since the epoch. */
  readonly atMs: number;
}

/** The way to the service, as the probe needs it: one origin, no redirects. */
export interface ProbeSender {
  /** Sends a request once. @throws MirrorError `pass.abandoned` when a signal ends it; nothing else */
  readonly send: (request: ProbeRequest) => Promise<ProbeAnswer>;
  /** How many connections were opened so far. */
  readonly connections: () => number;
  /** Whether the service offers HTTP/2; null where that cannot be seen. Sends no credential. */
  readonly offersHttp2: () => Promise<boolean | null>;
}

/** What stands for an answer that did not come. */
export const NO_ANSWER: Omit<ProbeAnswer, 'atMs'> = {
  status: 0,
  headers: {},
  body: Buffer.alloc(0),
  isWhole: false,
  waitMs: 0,
  failure: null,
};
