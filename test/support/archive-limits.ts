import type { ArchiveLimits } from '../../src/mirror/archive/policy.ts';

/** The limits that the settings have by default. */
export const DEFAULT_LIMITS: ArchiveLimits = {
  maxUnpackedBytes: 256 * 1024 ** 3,
  maxEntries: 1_000_000,
  nameTwins: 'refuse',
};
