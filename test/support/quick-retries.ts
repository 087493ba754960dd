import { RETRIES } from '../../src/mirror/upstream/transport.ts';

/** Failed requests are repeated at once: their number counts, not their time. */
RETRIES.firstDelayMs = 1;
