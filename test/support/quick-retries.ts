import { RETRIES } from '../../src/mirror/upstream/transport.ts';

/** Requests that fail are tried again at once: what counts is how often, and not when. */
RETRIES.firstDelayMs = 1;
